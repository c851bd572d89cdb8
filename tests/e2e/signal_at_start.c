/* Preloaded: a SIGTERM that comes before main(). Not to the children of the program, which get what
 * it gets later. */
#include <signal.h>
#include <stdlib.h>

__attribute__((constructor)) static void signal_at_start(void)
{
    (void)unsetenv("LD_PRELOAD");
    (void)raise(SIGTERM);
}
