/* Prepares a vfork, whose child shares this process's memory (state/vfork_children.c). */
#include "process/process.h"

/* Runs in the parent just before the jump to the real vfork. */
void pt_before_vfork(void)
{
    struct pt_thread *t = pt_enter();
    if (t) {
        struct pt_call c;
        pt_begin(&c, t, PT_OP_VFORK, 0, 0, -1, PT_SIZE_NONE);
        pt_end(&c, -1, 0); /* what follows runs in two processes */
        t->forking = pt_call_id(&c);
    } else if ((pt.gate & PT_GATE_OFF) || !(t = pt_self)) {
        return;
    } else {
        t->forking = 0; /* suppressed: not recorded, but the child must not be mistaken for this process */
    }
    t->vfork_seen = false;
    t->vfork_hooks = 0;
    t->gate |= PT_GATE_VFORK;
}
