/*
 * Ports for servers that come back at the same address.
 *
 * Threads: one at a time.
 */
#pragma once

/* A port of 127.0.0.1 on which nobody listens, and which stays this process's: it is none of those
 * that the kernel gives to whoever connects, or asks for any, and no other test takes it while this
 * process lives. -1: there is none. */
int mr_test_port(void);
