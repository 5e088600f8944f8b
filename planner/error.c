#include "planner/error.h"

G_DEFINE_QUARK(mw-error-quark, mw_error)
