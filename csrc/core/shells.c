/* The shells that libc starts for system() and popen(): whose line they come from.
 *
 * No hook sees that start.  While the call is under way its record stands in
 * the caller's process entry; a shell that joins the run (--follow=all) finds
 * it there by its command, and so has the line of Python that it came from. */
#include "process.h"

#include <string.h>

/* A popen()ed stream and the place of its record.  Of this process alone. */
struct stream {
    const void *file; /* NULL: free */
    uint32_t record;
    int place;
};
static struct stream streams[PT_SHELLS];

void pt_shell_starts(struct pt_shell *s, const struct pt_call *c)
{
    s->place = -1;
    s->record = c->thread && c->record && c->process_id ? pt_id_of(c->record) : 0;
    for (int i = 0; s->record && s->place < 0 && i < PT_SHELLS; i++) {
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&c->thread->process->shells[i], &none, s->record, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            s->place = i;
    }
    pt_before_wait(&s->waiting);
}

/* How the shell ended, only the call that waited for it was told. */
void pt_shell_ended(const struct pt_shell *s, int status)
{
    struct pt_process *shell = NULL;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    if (s->place >= 0) {
        uint32_t noted = s->record;
        if (!__atomic_compare_exchange_n(&pt.process->shells[s->place], &noted, 0, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            return; /* a stream that fork has copied: its parent's to tell */
        shell = pt_process_started_by(s->record);
    }
    if (status != -1)
        pt_process_waited(shell, status, &s->waiting);
}

void pt_shell_keep(const struct pt_shell *s, const void *stream)
{
    for (int i = 0; s->place >= 0 && i < PT_SHELLS; i++) {
        const void *none = NULL;
        if (__atomic_compare_exchange_n(&streams[i].file, &none, stream, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            streams[i].record = s->record;
            streams[i].place = s->place;
            return;
        }
    }
}

/* What was kept for this stream, which is about to be closed. */
void pt_shell_take(struct pt_shell *s, const void *stream)
{
    s->place = -1;
    for (int i = 0; i < PT_SHELLS; i++)
        if (__atomic_load_n(&streams[i].file, __ATOMIC_ACQUIRE) == stream) {
            s->place = streams[i].place;
            s->record = streams[i].record;
            __atomic_store_n(&streams[i].file, NULL, __ATOMIC_RELEASE);
        }
    pt_before_wait(&s->waiting);
}

/* ---- the shell's side ------------------------------------------------------------- */

/* sh -c [--] COMMAND: the command; NULL: it is none of libc's shells. */
static const char *command_of(const struct pt_options *o)
{
    const char *end = o->argv + o->argv_length, *at = o->argv, *last = NULL;
    int words = 0;
    for (; at < end; at += strnlen(at, (size_t)(end - at)) + 1, words++) {
        if (words == 1 && strcmp(at, "-c") != 0)
            return NULL;
        last = at;
    }
    return words == 3 || words == 4 ? last : NULL;
}

static bool same_command(uint32_t record, const char *command)
{
    if (((uint64_t)record << PT_ID_SHIFT) + sizeof(struct pt_record) > pt.mapped)
        return false;
    const struct pt_record *r = pt_at(record);
    uint32_t length = 0, base;
    const char *text = pt_string_at(r->desc, &length, &base);
    size_t n = strlen(command);
    bool whole = length == n || (length > n && n > sizeof((struct pt_process *)0)->argv - 32); /* argv may be cut */
    return text && whole && memcmp(text, command, n) == 0;
}

/* The system or popen of `parent` that this joining process is the shell of; 0
 * where none is, or two of different lines may be. */
uint32_t pt_shell_of(const struct pt_process *parent, const struct pt_options *o)
{
    const char *command = o->argv ? command_of(o) : NULL;
    uint32_t found = 0;
    for (int i = 0; command && i < PT_SHELLS; i++) {
        uint32_t record = __atomic_load_n(&parent->shells[i], __ATOMIC_ACQUIRE);
        if (!record || !same_command(record, command))
            continue;
        if (found && ((struct pt_record *)pt_at(found))->stack != ((struct pt_record *)pt_at(record))->stack)
            return 0;
        found = record;
    }
    return found;
}
