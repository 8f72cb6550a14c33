/* The state of this process, and the pointer to that of the calling thread. */
#include "base/state.h"

struct pt_state pt = {.gate = PT_GATE_OFF};
PT_THREAD_LOCAL struct pt_thread *pt_self;
