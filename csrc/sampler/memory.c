/* Reading a process's memory.  Any address may be tried: for an unmapped one the kernel returns an error. */
#include "sampler.h"

#include "base/sys.h"
#include "log/intern.h"

#include <sys/uio.h>

#define LONGEST_NAME 4096u /* bytes of UTF-8, as csrc/ext/frames has it */

int sampler_read_error;

bool sampler_read_parts(const struct process *p, const struct part *parts, unsigned count)
{
    struct iovec to[PARTS_MOST], from[PARTS_MOST];
    long whole = 0;
    for (unsigned i = 0; i < count && i < PARTS_MOST; i++) {
        to[i] = (struct iovec){parts[i].to, parts[i].size};
        from[i] = (struct iovec){(void *)(uintptr_t)parts[i].from, parts[i].size};
        whole += (long)parts[i].size;
    }
    long n = pt_sys(SYS_process_vm_readv, p->pid, to, count, from, count, 0);
    if (n < 0)
        sampler_read_error = (int)-n;
    return n == whole;
}

bool sampler_read(const struct process *p, uint64_t from, void *to, size_t size)
{
    return from && sampler_read_parts(p, &(struct part){from, to, size}, 1);
}

uint64_t sampler_read_word(const struct process *p, uint64_t from)
{
    uint64_t word;
    return sampler_read(p, from, &word, sizeof word) ? word : 0;
}

static size_t put_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

/* As UTF-8; lone surrogates as they are. */
static size_t utf8_of(const char *data, unsigned width, size_t length, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < length && used + 4 <= LONGEST_NAME; i++) {
        uint32_t c = 0;
        __builtin_memcpy(&c, data + i * width, width);
        used += put_utf8(c < 0x110000 ? c : '?', out + used);
    }
    return used;
}

uint32_t sampler_read_string(const struct process *p, uint64_t at)
{
    const struct pt_layout *l = &p->layout;
    char head[OBJECT_ROOM], data[LONGEST_NAME * 4], text[LONGEST_NAME];
    if (!sampler_read(p, at, head, l->str_ascii_data))
        return 0;
    uint32_t state = half_in(head, l->str_state), kind = l->str_kind ? l->str_kind & -l->str_kind : 1;
    uint64_t length = word_in(head, l->str_length);
    unsigned width = (state & l->str_kind) / kind;
    bool ascii = state & l->str_ascii;
    if (!(state & l->str_compact) || (width != 1 && width != 2 && width != 4) || length > LONGEST_NAME)
        return 0;
    if (length && !sampler_read(p, at + (ascii ? l->str_ascii_data : l->str_wide_data), data, length * width))
        return 0;
    return pt_location(text, utf8_of(data, width, length, text), 0);
}
