// Long work of a kernel that Ctrl-C ends.
#pragma once

#include <Python.h>

#include <exception>

#include "matching/deadline.hpp"

namespace hivecore {

// Thrown where a Python exception has been set.
struct PythonError : std::exception {};

// Without the GIL, but for a moment some times a second, in which a signal such as that of Ctrl-C
// may raise its exception; then the work is called off.
template <class Work>
auto interruptible(Work work) {
    struct Unlocked {
        PyThreadState* state = PyEval_SaveThread();
        ~Unlocked() { PyEval_RestoreThread(state); }
    };
    bool raised = false;
    auto result = [&] {
        Unlocked unlocked;
        matching::Interrupt interrupt([&] {
            PyEval_RestoreThread(unlocked.state);
            raised = PyErr_CheckSignals() != 0;
            unlocked.state = PyEval_SaveThread();
            return raised;
        });
        return work(&interrupt);
    }();
    if (raised) {
        throw PythonError();
    }
    return result;
}

}  // namespace hivecore
