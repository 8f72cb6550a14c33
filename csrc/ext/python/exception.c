/* What the log says about the exception that is set. */
#include "python/exception.h"

int pt_exception_errno(void)
{
    if (!PyErr_ExceptionMatches(PyExc_OSError))
        return 0;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    long number = 0;
    if (value && PyObject_TypeCheck(value, (PyTypeObject *)PyExc_OSError)) {
        PyObject *code = ((PyOSErrorObject *)value)->myerrno;
        number = code && PyLong_Check(code) ? PyLong_AsLong(code) : 0;
    }
    PyErr_Restore(type, value, trace);
    return (int)number;
}
