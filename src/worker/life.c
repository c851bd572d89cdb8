#include "worker/life.h"

#include "base/alloc.h"

bool mr_worker_begin_life(struct mr_worker *w)
{
    struct mr_life *life = mr_calloc(1, sizeof *life);

    if (life == NULL) {
        return false;
    }
    mr_identity_draw(&life->who);
    life->before = w->lives;
    w->lives = life;
    w->incarnation = life->who.id;
    return true;
}

void mr_worker_free_lives(struct mr_worker *w)
{
    while (w->lives != NULL) {
        struct mr_life *life = w->lives;

        w->lives = life->before;
        mr_free(life);
    }
}
