/* The table of hooks: hooks.def as data.
 *
 * The functions and the places for their originals are known here by address
 * only, so they are declared without their types. */
#include "core.h"

#define HOOK(name, family) extern char hook_##family[], real_##family[];
#include "hooks.def"
#undef HOOK

struct pt_hook pt_hooks[] = {
#define HOOK(name_, family) {.name = #name_, .function = hook_##family, .original = (void **)real_##family},
#include "hooks.def"
#undef HOOK
};
const unsigned pt_hook_count = sizeof pt_hooks / sizeof *pt_hooks;
