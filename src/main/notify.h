/*
 * What the service manager that started this process is told: systemd's protocol, a datagram to the
 * socket that NOTIFY_SOCKET names. Without that variable nothing is sent.
 *
 * Threads: any.
 */
#pragma once

#include <millrace/base.h>

/* "READY=1\nSTATUS=serving at 10.0.0.1:5050", "STOPPING=1", "WATCHDOG=1": lines of NAME=value. What
 * cannot be sent is logged; nothing depends on it here, and the manager has a time limit. */
void notify_manager(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
