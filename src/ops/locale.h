/* The C locale, whatever the process has set: for reading and writing numbers. Any thread. */
#ifndef MR_OPS_LOCALE_H
#define MR_OPS_LOCALE_H

#include <locale.h>

/* (locale_t)0 if there was no memory for it. Lives as long as the process. */
locale_t mr_c_locale(void);

#endif
