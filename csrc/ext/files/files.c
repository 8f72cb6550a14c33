/* Instrumenting Python's own file objects: their methods (methods.c) and their slots (slots.c). */
#include "files/files.h"

#include "files/layout.h"
#include "files/methods.h"
#include "files/slots.h"

const char *pt_files_unsupported(void)
{
#ifdef Py_GIL_DISABLED
    return "types may not be changed under other threads without the GIL";
#else
    return NULL;
#endif
}

/* files_install() -> None, or a str that says why file objects are not instrumented */
PyObject *pt_files_install(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const char *problem = pt_files_unsupported();
    if (!problem && !pt_layout.text)
        problem = pt_layout_find();
    if (problem)
        return PyUnicode_FromString(problem);
    pt_methods_install();
    pt_slots_install();
    Py_RETURN_NONE;
}

/* files_install_mmap(mmap.mmap) -> as files_install(), once the mmap module is imported */
PyObject *pt_files_install_mmap(PyObject *module, PyObject *type)
{
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "files_install_mmap() takes a type");
        return NULL;
    }
    pt_layout.mmap = (PyTypeObject *)Py_NewRef(type);
    return pt_files_install(module, NULL);
}

PyObject *pt_files_uninstall(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    pt_methods_uninstall();
    pt_slots_uninstall();
    Py_RETURN_NONE;
}

/* files_snapshot() -> {name: address} of all that installing changes; None if the layout is not understood */
PyObject *pt_files_snapshot(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!pt_layout.text && pt_layout_find())
        Py_RETURN_NONE;
    PyObject *result = PyDict_New();
    if (result && (pt_methods_snapshot(result) < 0 || pt_slots_snapshot(result) < 0))
        Py_CLEAR(result);
    return result;
}
