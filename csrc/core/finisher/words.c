/* What is said of a finisher that failed: one line, with the place of the live log.  strerror() may allocate. */
#include "finisher/finisher.h"
#include "base/sys.h"

#include <errno.h>

const char *pt_digits(uint64_t number, char room[static PT_DIGITS])
{
    char *at = room + PT_DIGITS - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    return at;
}

static const char *reason_of_error(int error)
{
    switch (error) {
    case ENOENT: return "there is no ";
    case EACCES:
    case EPERM: return "not permitted: ";
    case EAGAIN: return "no further process is allowed: ulimit -u";
    case ENOMEM: return "no memory";
    default: return "error ";
    }
}

static const char *detail_of_error(int error, const char *python, char room[static PT_DIGITS])
{
    switch (error) {
    case ENOENT:
    case EACCES:
    case EPERM: return python;
    case EAGAIN:
    case ENOMEM: return "";
    default: return pt_digits((unsigned)error, room);
    }
}

unsigned pt_finisher_failure(const char *words[static PT_FINISHER_WORDS], char room[static PT_DIGITS], int error,
                             int status, const char *python, const char *log)
{
    unsigned signal = (unsigned)status & 0x7f, code = (unsigned)status >> 8 & 0xff;
    if (!error && !signal && !code)
        return 0;
    words[0] = "the summary could not be made (";
    words[1] = error ? reason_of_error(error) : signal ? "it was ended by signal " : "it ended with status ";
    words[2] = error ? detail_of_error(error, python, room) : pt_digits(signal ? signal : code, room);
    words[3] = "); the live log is ";
    words[4] = log;
    words[5] = "; pyio-trace summary ";
    words[6] = log;
    return PT_FINISHER_WORDS;
}

/* The first line alone: a summary is not kept. */
size_t pt_finisher_heard(int heard_at, char *text, size_t room)
{
    static const char ours[] = "pyio-trace: ";
    const size_t name = sizeof ours - 1;
    long n = heard_at < 0 ? 0 : pt_sys(SYS_pread64, heard_at, text, room, 0);
    for (size_t i = 0; i < name; i++)
        if (n <= (long)i || text[i] != ours[i])
            return 0;
    size_t length = 0;
    for (; name + length < (size_t)n && text[name + length] != '\n'; length++)
        text[length] = text[name + length];
    return length;
}
