/* What is dirty of a mapped file, and which parts of a mapping were touched, for state/mappings.c. */
#ifndef PYIO_TRACE_MAPPING_DIRT_H
#define PYIO_TRACE_MAPPING_DIRT_H

#include "state/mapping_places.h"

bool pt_mapping_writes_file(const struct pt_mapping_place *m);
int pt_mapping_descriptor(const struct pt_mapping_place *m);
uint64_t pt_cached_dirt(const struct pt_mapping_place *m); /* of its range of the file; 0 also where it is not known */
void pt_note_dirt_at_fork(struct pt_mapping_place *m);
bool pt_any_dirt_at_fork(const struct pt_mapping_place *m);
uint64_t pt_others_dirt(const struct pt_mapping_place *m);
uint32_t pt_touched_shares(const struct pt_mapping_place *m);

#endif
