// What Python may say to the team.
#include "team.h"

// Another number of threads for all loops from now on; it is the cores of the process before.
extern "C" void use_threads(int64_t count) { Team::instance().resize(count); }
