/* Numbers in text are read and written in the C locale, whatever the process has set. */
#pragma once

#include <locale.h>

/* (locale_t)0 if there is no memory; else the caller's, for freelocale(). The C library has this
 * one ready: nothing is allocated. */
static inline locale_t mr_c_locale_new(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}
