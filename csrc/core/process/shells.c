/* The shells that libc starts for system() and popen(), and the lines they come from.
 *
 * No hook sees them start.  While the call is under way, its record is in the caller's process entry.  A shell that
 * joins the run (--follow=all) finds it there by its command, and so knows the line of Python that it came from. */
#include "process/process.h"
#include "base/memory.h"
#include "redact/redact.h"

#include <string.h>

/* A popen()ed stream and the index of its record. Private to this process. */
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

/* How the shell ended: only the call that waited for it knows. */
void pt_shell_ended(const struct pt_shell *s, int status)
{
    struct pt_process *shell = NULL;
    if ((pt.gate & PT_GATE_OFF) || !pt.process_id)
        return;
    if (s->place >= 0) {
        uint32_t noted = s->record;
        if (!__atomic_compare_exchange_n(&pt.process->shells[s->place], &noted, 0, false, __ATOMIC_RELEASE,
                                         __ATOMIC_RELAXED))
            return; /* a stream copied by fork: its parent reports */
        shell = pt_process_started_by(s->record);
    }
    if (status != -1)
        pt_process_waited(shell, shell ? shell->pid : 0, status, &s->waiting, NULL);
}

void pt_shell_attach(const struct pt_shell *s, const void *stream)
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

/* Takes back what was stored for this stream, which is about to be closed. */
void pt_shell_detach(struct pt_shell *s, const void *stream)
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

/* The COMMAND of sh -c [--] COMMAND; NULL: this is no shell of libc. */
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

/* The record with this id, if it is of that command; else NULL. */
static const struct pt_record *command_at(uint32_t id, const char *command, size_t n)
{
    const struct pt_record *r = pt_checked(id, sizeof *r);
    uint32_t length = 0, base;
    const char *text = r ? pt_string_at(pt_read_id(&r->desc), &length, &base) : NULL;
    return text && length == n && memcmp(text, command, n) == 0 ? r : NULL;
}

/* The record of a redacted command; 0: there is none, or several from different lines. */
static uint32_t record_of(const struct pt_process *parent, const char *command, size_t n)
{
    const struct pt_record *found = NULL;
    for (int i = 0; i < PT_SHELLS; i++) {
        uint32_t id = __atomic_load_n(&parent->shells[i], __ATOMIC_ACQUIRE);
        const struct pt_record *r = command_at(id, command, n);
        if (r && found && found->stack != r->stack)
            return 0;
        found = r ? r : found;
    }
    return found ? pt_id_of(found) : 0;
}

/* The system or popen call of `parent` that started this shell; 0: unknown. */
uint32_t pt_shell_of(const struct pt_process *parent, const struct pt_options *o)
{
    const char *command = o->argv ? command_of(o) : NULL;
    size_t n = command ? strlen(command) : 0, room = PT_REDACTED_ROOM(n);
    char *text = command ? pt_memory(room) : NULL;
    if (!text)
        return 0;
    uint32_t found = record_of(parent, text, pt_redact_command(command, n, text, room));
    pt_memory_back(text, room);
    return found;
}
