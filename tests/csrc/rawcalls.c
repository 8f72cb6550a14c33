/* System calls made by the processor's instruction, without libc, as Go programs and some libraries make them.  For
 * tests of what is reported about calls that cannot be seen. */
#include "base/sys.h"

long raw_call(long number, long a, long b, long c, long d, long e, long f)
{
    return pt_sys6(number, a, b, c, d, e, f);
}
