/* Descriptor objects where only sums are kept. */
#ifndef PYIO_TRACE_SUMMED_DESCRIPTORS_H
#define PYIO_TRACE_SUMMED_DESCRIPTORS_H

#include "base/state.h"

uint32_t pt_summed_desc(const struct pt_thread *t, uint32_t path, uint32_t flags); /* the file's object; 0: none yet */
void pt_summed_desc_keep(const struct pt_thread *t, struct pt_desc *d);            /* makes it its file's object */
void pt_summed_desc_opened(struct pt_desc *d);                                     /* notes an opening, just now */
uint32_t pt_summed_name(uint32_t desc); /* the path by which its file is known; 0: it has no name of its own */

#endif
