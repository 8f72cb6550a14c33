/* A program in C with the HDF5 library, without its headers: writes a data set and reads it.  hdf5 FILE [ANOTHER]
 * ANOTHER is written after the library was shut down and begun again. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

typedef int64_t hid_t;
extern hid_t H5Fcreate(const char *, unsigned, hid_t, hid_t), H5Fopen(const char *, unsigned, hid_t);
extern hid_t H5Screate_simple(int, const uint64_t *, const uint64_t *), H5Dopen2(hid_t, const char *, hid_t);
extern hid_t H5Dcreate2(hid_t, const char *, hid_t, hid_t, hid_t, hid_t, hid_t);
extern int H5Dread(hid_t, hid_t, hid_t, hid_t, hid_t, void *),
    H5Dwrite(hid_t, hid_t, hid_t, hid_t, hid_t, const void *);
extern int H5Dclose(hid_t), H5Fclose(hid_t), H5open(void), H5close(void);
extern hid_t H5T_NATIVE_INT_g;

int main(int argc, char **argv)
{
    int numbers[1000] = {7}, back[1000];
    uint64_t extent[] = {1000};
    H5open();
    hid_t file = H5Fcreate(argv[1], 2, 0, 0);
    hid_t set = H5Dcreate2(file, "numbers", H5T_NATIVE_INT_g, H5Screate_simple(1, extent, NULL), 0, 0, 0);
    H5Dwrite(set, H5T_NATIVE_INT_g, 0, 0, 0, numbers);
    H5Dclose(set);
    H5Fclose(file);
    file = H5Fopen(argv[1], 0, 0);
    set = H5Dopen2(file, "numbers", 0);
    errno = 77;
    H5Dread(set, H5T_NATIVE_INT_g, 0, 0, 0, back);
    int error = errno;
    printf("%d %d %d\n", back[0], H5Dclose(set), error);
    if (argc == 2)
        return H5Fclose(file);
    H5Dread(H5Dopen2(file, "numbers", 0), H5T_NATIVE_INT_g, 0, 0, 0, back);
    H5close(); /* closes what is open; ids begin again */
    H5open();
    file = H5Fcreate(argv[2], 2, 0, 0);
    H5Dcreate2(file, "others", H5T_NATIVE_INT_g, H5Screate_simple(1, extent, NULL), 0, 0, 0);
    H5Dopen2(file, "others", 0);
    set = H5Dopen2(file, "others", 0); /* the third id, as that of the set that was open */
    H5Dwrite(set, H5T_NATIVE_INT_g, 0, 0, 0, numbers);
    return H5close();
}
