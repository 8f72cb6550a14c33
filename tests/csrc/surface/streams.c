/* C streams: every call that moves characters, lines, words and blocks, prints,
 * scans and sets the position.  Run in a folder of its own. */
#include "account.h"

#include <locale.h>
#include <wchar.h>

#define TIMES 3000

/* Through pointers: where a header has a call inline, the function is meant. */
static int (*volatile const putters[])(int, FILE *) = {fputc, putc, fputc_unlocked, putc_unlocked};
static int (*volatile const getters[])(FILE *) = {fgetc, getc, fgetc_unlocked, getc_unlocked};

static int characters(void)
{
    FILE *f = fopen("chars", "w+");
    EXPECT(f);
    did("fopen", "chars", -1, 0);
    for (int n = 0; n < 4 * TIMES; n++) {
        int ch = putters[n % 4](n & 0xff, f);
        EXPECT(ch == (n & 0xff));
        did("fputc", "chars", 1, 0);
    }
    rewind(f);
    did("fseek", "chars", -1, 0);
    for (int n = 0; n < 4 * TIMES; n++) {
        int ch = getters[n % 4](f);
        EXPECT(ch == (n & 0xff));
        did("fgetc", "chars", 1, 0);
    }
    for (int i = 0; i < 4; i++) {
        RESULT(getters[i](f)); /* the end */
        did("fgetc", "chars", 0, 0);
    }
    RESULT(ungetc('x', f));
    RESULT(fgetc(f));
    did("fgetc", "chars", 1, 0);
    RESULT(fclose(f));
    did("fclose", "chars", -1, 0);
    EXPECT((f = fopen("chars", "r")) != NULL);
    did("fopen", "chars", -1, 0);
    for (int i = 0; i < 4; i++) {
        errno = 0;
        RESULT(putters[i]('x', f)); /* not for writing */
        did("fputc", "chars", 0, 1);
    }
    errno = 77;
    RESULT(getc(f));
    did("fgetc", "chars", 1, 0);
    RESULT(fclose(f));
    did("fclose", "chars", -1, 0);
    return 0;
}

static int words_and_blocks(void)
{
    char block[10000];
    FILE *f = fopen("words", "w+");
    EXPECT(f);
    did("fopen", "words", -1, 0);
    for (int n = 0; n < 100; n++) {
        EXPECT(putw(n - 1, f) == 0);
        did("fwrite", "words", sizeof(int), 0);
    }
    memset(block, 'b', sizeof block);
    for (int n = 0; n < 50; n++) {
        EXPECT(fwrite(block, 7, 3, f) == 3);
        did("fwrite", "words", 21, 0);
        EXPECT(fwrite_unlocked(block, 1, 5, f) == 5);
        did("fwrite", "words", 5, 0);
    }
    EXPECT(fwrite(block, sizeof block, 1, f) == 1); /* a record of its own */
    did("fwrite", "words", sizeof block, 0);
    rewind(f);
    did("fseek", "words", -1, 0);
    for (int n = 0; n < 100; n++) {
        EXPECT(getw(f) == n - 1);
        did("fread", "words", sizeof(int), 0);
    }
    for (;;) {
        volatile size_t size = 9; /* what FORTIFY cannot know */
        size_t n = fread(block, 1, size, f);
        did("fread", "words", (long)n, 0);
        if (n < 9)
            break;
        n = fread_unlocked(block, 1, size, f);
        did("fread", "words", (long)n, 0);
        if (n < 9)
            break;
    }
    RESULT(getw(f));
    did("fread", "words", 0, 0);
    RESULT(feof(f));
    RESULT(fclose(f));
    did("fclose", "words", -1, 0);
    return 0;
}

static int lines(void)
{
    char *line = NULL, text[64];
    size_t room = 0;
    volatile int size = sizeof text;
    FILE *f = fopen("lines", "w+");
    EXPECT(f);
    did("fopen", "lines", -1, 0);
    for (int n = 0; n < 500; n++) {
        EXPECT((n % 2 ? fputs : fputs_unlocked)("eleven here\n", f) >= 0);
        did("fputs", "lines", 12, 0);
    }
    RESULT(fflush(f));
    did("fflush", "lines", -1, 0);
    RESULT(fflush_unlocked(f));
    did("fflush", "lines", -1, 0);
    RESULT(fseek(f, 0, SEEK_SET));
    did("fseek", "lines", -1, 0);
    for (int n = 0; n < 125; n++) {
        EXPECT(fgets(text, size, f) && strlen(text) == 12);
        did("fgets", "lines", 12, 0);
        EXPECT(fgets_unlocked(text, size, f) && strlen(text) == 12);
        did("fgets", "lines", 12, 0);
        EXPECT(getline(&line, &room, f) == 12);
        did("getline", "lines", 12, 0);
        EXPECT(getdelim(&line, &room, 'e', f) == 1);
        did("getline", "lines", 1, 0);
        EXPECT(getdelim(&line, &room, '\n', f) == 11);
        did("getline", "lines", 11, 0);
    }
    say("at the end: %p\n", (void *)fgets(text, size, f));
    did("fgets", "lines", 0, 0);
    RESULT(getline(&line, &room, f));
    did("getline", "lines", 0, 0);
    free(line);
    RESULT(fclose(f));
    did("fclose", "lines", -1, 0);
    return 0;
}

static int printed(FILE *f, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vfprintf(f, format, ap);
    va_end(ap);
    return n;
}

static int printed_out(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vprintf(format, ap);
    va_end(ap);
    return n;
}

static int printed_to(int fd, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vdprintf(fd, format, ap);
    va_end(ap);
    return n;
}

/* The spelling of programs built with -std=c99. */
extern int __isoc99_fscanf(FILE *, const char *, ...);

static int formats(void)
{
    char word[64];
    int number;
    FILE *f = fopen("formats", "w+");
    EXPECT(f);
    did("fopen", "formats", -1, 0);
    for (int n = 0; n < 300; n++) {
        did("fprintf", "formats", fprintf(f, "%d %s\n", n, "word"), 0);
        did("fprintf", "formats", printed(f, "%d %.3s\n", n, "word"), 0);
    }
    RESULT(fprintf(f, "%d%s\n", 1, ""));
    did("fprintf", "formats", 2, 0);
    rewind(f);
    did("fseek", "formats", -1, 0);
    for (int n = 0; n < 600; n++) {
        EXPECT((n % 2 ? fscanf : __isoc99_fscanf)(f, "%d %60s", &number, word) == 2 && number == n / 2);
        did("fscanf", "formats", -1, 0);
    }
    RESULT(fscanf(f, "%d %60s", &number, word));
    did("fscanf", "formats", -1, 0);
    RESULT(fscanf(f, "%d %60s", &number, word));
    did("fscanf", "formats", -1, 0);
    RESULT(fclose(f));
    did("fclose", "formats", -1, 0);

    int fd = open("descriptor", O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0);
    did("open", "descriptor", -1, 0);
    for (int n = 0; n < 20; n++) {
        did("dprintf", "descriptor", dprintf(fd, "%d bytes\n", n), 0);
        did("dprintf", "descriptor", printed_to(fd, "%s %d\n", "more", n), 0);
    }
    long at = lseek(fd, 0, SEEK_CUR);
    say("at %ld\n", at);
    did("lseek", "descriptor", -1, 0);
    EXPECT(close(fd) == 0);
    did("close", "descriptor", -1, 0);
    EXPECT((fd = open("descriptor", O_RDONLY)) >= 0);
    did("open", "descriptor", -1, 0);
    RESULT(dprintf(fd, "%d\n", 5));
    did("dprintf", "descriptor", 0, 1);
    EXPECT(close(fd) == 0);
    did("close", "descriptor", -1, 0);
    return 0;
}

/* Standard output and input, redirected to files for a while. */
static int standard(void)
{
    char word[64];
    int keep_out = dup(1), keep_in = dup(0);
    fflush(stdout);
    RESULT(freopen("out", "w", stdout) == stdout);
    did("freopen", "out", -1, 0);
    for (int n = 0; n < 100; n++) {
        RESULT(printf("%d %s\n", n, "printed"));
        did("printf", "out", (n < 10 ? 10 : 11) - 0, 0);
        RESULT(printed_out("%d\n", n + 100));
        did("printf", "out", 4, 0);
        RESULT(puts("a line"));
        did("puts", "out", 7, 0);
        RESULT(putchar('c'));
        did("fputc", "out", 1, 0);
        RESULT(putchar_unlocked('\n'));
        did("fputc", "out", 1, 0);
    }
    RESULT(fflush(stdout));
    did("fflush", "out", -1, 0);
    RESULT(freopen("out", "r", stdin) == stdin);
    did("freopen", "out", -1, 0);
    RESULT(getchar());
    did("fgetc", "out", 1, 0);
    RESULT(getchar_unlocked());
    did("fgetc", "out", 1, 0);
    for (int n = 0; n < 50; n++) {
        RESULT(scanf("%60s", word));
        did("scanf", "out", -1, 0);
        say("%s\n", word);
    }
    RESULT(freopen("missing/file", "w", stdout) == NULL);
    did("freopen", "file", -1, 1);
    /* their numbers are free and are reused */
    int fd = open("after", O_RDWR | O_CREAT, 0600);
    say("after: %d\n", fd);
    did("open", "after", -1, 0);
    EXPECT(write(fd, "12345", 5) == 5);
    did("write", "after", 5, 0);
    EXPECT(close(fd) == 0);
    did("close", "after", -1, 0);
    dup2(keep_out, 1);
    dup2(keep_in, 0);
    close(keep_out);
    close(keep_in);
    return 0;
}

static int wide(void)
{
    static const wchar_t text[] = L"gr\u00fc\u00dfe \u20ac\n"; /* 6 + 2 * 2 + 3 - ... in UTF-8: 12 */
    wchar_t line[64];
    volatile int size = 60;
    FILE *f = fopen("wide", "w+");
    EXPECT(f);
    did("fopen", "wide", -1, 0);
    for (int n = 0; n < 100; n++) {
        EXPECT((n % 2 ? fputwc : n % 4 ? putwc : fputwc_unlocked)(L'\u00e4', f) == L'\u00e4');
        did("fputwc", "wide", 2, 0);
        EXPECT((n % 2 ? fputws : fputws_unlocked)(text, f) >= 0);
        did("fputws", "wide", 12, 0);
        EXPECT(fwprintf(f, L"%d\n", 10 + n % 90) == 3);
        did("fwprintf", "wide", 3, 0);
    }
    rewind(f);
    did("fseek", "wide", -1, 0);
    for (int n = 0; n < 100; n++) {
        int number;
        EXPECT((n % 2 ? fgetwc : n % 4 ? getwc : fgetwc_unlocked)(f) == L'\u00e4');
        did("fgetwc", "wide", 2, 0);
        EXPECT((n % 2 ? fgetws(line, size, f) : fgetws_unlocked(line, size, f)) && !wcscmp(line, text));
        did("fgetws", "wide", 12, 0);
        if (n % 2) {
            EXPECT(fwscanf(f, L"%d ", &number) == 1 && number == 10 + n % 90);
            did("fwscanf", "wide", -1, 0);
        } else {
            EXPECT(fgetws(line, size, f));
            did("fgetws", "wide", 3, 0);
        }
    }
    RESULT(fgetwc(f));
    did("fgetwc", "wide", 0, 0);
    RESULT(fclose(f));
    did("fclose", "wide", -1, 0);
    return 0;
}

static int positions(void)
{
    fpos_t place;
    FILE *f = fopen("places", "w+");
    EXPECT(f);
    did("fopen", "places", -1, 0);
    EXPECT(fputs("0123456789", f) >= 0);
    did("fputs", "places", 10, 0);
    RESULT(ftell(f));
    did("ftell", "places", -1, 0);
    RESULT(fseeko(f, 4, SEEK_SET));
    did("fseek", "places", -1, 0);
    RESULT(fgetpos(f, &place));
    did("ftell", "places", -1, 0);
    RESULT(ftello(f));
    did("ftell", "places", -1, 0);
    RESULT(fseek(f, -1, SEEK_END));
    did("fseek", "places", -1, 0);
    RESULT(fsetpos(f, &place));
    did("fseek", "places", -1, 0);
    RESULT(fgetc(f));
    did("fgetc", "places", 1, 0);
    errno = 0;
    RESULT(fseek(f, -1, SEEK_SET));
    did("fseek", "places", -1, 1);
    RESULT(fclose(f));
    did("fclose", "places", -1, 0);
    return 0;
}

/* Streams that are no files: nothing in the log, and no fault. */
static int no_files(void)
{
    char *text, memory[100];
    size_t size;
    FILE *f = open_memstream(&text, &size);
    EXPECT(f && fprintf(f, "%d", 5) == 1 && fputc('x', f) == 'x' && fflush(f) == 0 && ftell(f) == 2);
    RESULT(fclose(f));
    say("%s\n", text);
    free(text);
    EXPECT((f = fmemopen(memory, sizeof memory, "w+")) != NULL);
    EXPECT(fputs("text", f) >= 0 && fseek(f, 0, SEEK_SET) == 0 && fgetc(f) == 't');
    RESULT(fclose(f));
    errno = 5;
    EXPECT((f = tmpfile()) != NULL && errno == 5);
    RESULT(fputs("text", f));
    RESULT(fclose(f));
    return 0;
}

int streams(const char *folder, const char *to)
{
    int (*const parts[])(void) = {characters, words_and_blocks, lines, formats, standard, wide, positions, no_files};
    EXPECT(chdir(folder) == 0 && setlocale(LC_ALL, "C.UTF-8"));
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        int line = parts[i]();
        if (line)
            return line;
    }
    return tell(to);
}
