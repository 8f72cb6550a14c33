/* Shared by the files that create, join and map the log. */
#ifndef PYIO_TRACE_FILE_INNER_H
#define PYIO_TRACE_FILE_INNER_H

#include "log/file.h"

#include <sys/stat.h>

/* ---- file_owner.c */
struct pt_file_place {
    char boot_id[40];
    uint64_t namespace_device, namespace_inode; /* 0: unreadable */
};
void pt_file_find_place(struct pt_file_place *p);
int pt_file_same_place(const struct pt_header *head);
int pt_file_lock_shared(int fd);
bool pt_file_is_same(const struct stat *a, const struct stat *b);
bool pt_file_is_named(const char *path, const struct stat *file);
int pt_file_make_way(const char *path, bool remove);

/* ---- file.c */
void pt_file_identify(const struct stat *st);
int pt_file_map(int fd, uint64_t size);
void pt_file_unmap(char *base_before, uint64_t mapped_before, uint64_t extent_before);
void pt_file_map_by_name(bool locked);

#endif
