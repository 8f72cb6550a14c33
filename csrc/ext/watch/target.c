/* The table of watched functions.
 *
 * Found by the address of the function, or of its definition.  Targets are never freed, and keep their function
 * alive: a call may be under way in one, and its address must not become another function's. */
#include "watch/target.h"

static struct pt_target *targets[PT_TARGET_PLACES];
static unsigned target_count;

static struct pt_target **place_of(const void *key)
{
    for (uint32_t i = (uint32_t)((uintptr_t)key >> 4) * 2654435761u;; i++) {
        struct pt_target **place = &targets[i % PT_TARGET_PLACES];
        struct pt_target *at = __atomic_load_n(place, __ATOMIC_ACQUIRE);
        if (!at || at->key == key)
            return place;
    }
}

struct pt_target *pt_target_find(const void *key)
{
    return *place_of(key);
}

struct pt_target *pt_target_at(unsigned place)
{
    return targets[place];
}

/* Replaces the description.  The new references are taken first: the old function may be the new one. */
static void describe(struct pt_target *g, const struct pt_target_description *description)
{
    struct pt_target_description old = g->description;
    g->description = *description;
    Py_INCREF(g->description.function);
    Py_INCREF(g->description.name);
    Py_XINCREF(g->description.path_keyword);
    Py_XINCREF(g->description.path);
    Py_XINCREF(g->description.details);
    Py_XINCREF(g->description.after);
    Py_XINCREF(g->description.bytes);
    Py_XINCREF(g->description.step_name);
    Py_XINCREF(g->description.only_if);
    g->name_id = 0;
    Py_XDECREF(old.function);
    Py_XDECREF(old.name);
    Py_XDECREF(old.path_keyword);
    Py_XDECREF(old.path);
    Py_XDECREF(old.details);
    Py_XDECREF(old.after);
    Py_XDECREF(old.bytes);
    Py_XDECREF(old.step_name);
    Py_XDECREF(old.only_if);
}

struct pt_target *pt_target_add(const void *key, const struct pt_target_description *description)
{
    struct pt_target **place = place_of(key), *g = *place;
    if (g) {
        describe(g, description);
        return g;
    }
    if (target_count >= PT_TARGET_PLACES / 2)
        return NULL;
    g = PyMem_RawCalloc(1, sizeof *g);
    if (!g) {
        PyErr_NoMemory();
        return NULL;
    }
    g->key = key;
    describe(g, description);
    target_count++;
    __atomic_store_n(place, g, __ATOMIC_RELEASE);
    return g;
}

uint32_t pt_target_name_id(struct pt_target *g)
{
    if (PT_UNLIKELY(g->name_epoch != pt.epoch || !g->name_id)) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(g->description.name, &length);
        g->name_id = name ? pt_string(name, (size_t)length, 0) : 0;
        g->name_epoch = pt.epoch;
    }
    return g->name_id;
}
