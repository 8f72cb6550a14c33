/* The table of hooks: hooks.def as data.
 *
 * The functions and the variables for their originals are only needed by address,
 * so they are declared without types. */
#include "hooks/hooks.h"
#include "patch/patch.h"

#define HOOK(name, family) extern char hook_##family[], real_##family[];
#include "hooks/hooks.def"
#undef HOOK

static struct pt_hook hooks[] = {
#define HOOK(name_, family) {.name = #name_, .function = hook_##family, .original = (void **)real_##family},
#define THROUGH(name_, family, other) \
    {.name = #name_, .function = hook_##family, .original = (void **)real_##family, .through = #other},
#include "hooks/hooks.def"
#undef HOOK
};
_Static_assert(sizeof hooks / sizeof *hooks < PT_MAX_HOOKS, "the index of names is half empty");

__attribute__((constructor(101))) static void provide(void)
{
    pt_hooks_register(hooks, sizeof hooks / sizeof *hooks);
}
