/*
 * Registering a dataset without sending its definition where that is known already: large constants
 * would go over the network at every pass.
 *
 * Threads: safe from any thread.
 */
#pragma once

#include "millrace/service.pb-c.h"

#include <millrace/dataset.h>

/* Send @req to the leader. */
typedef int mr_registration_call(void *ctx, Millrace__RegisterDatasetRequest *req,
                                 Millrace__RegisterDatasetReply **reply, mr_error *err);

/* Register @ds at @service: @req has its id and compression. By its content alone, if this process
 * has registered it there before or it is large; with the definition, if that is not known there.
 */
int mr_registration_send(const char *service, mr_dataset *ds, Millrace__RegisterDatasetRequest *req,
                         mr_registration_call *call, void *ctx,
                         Millrace__RegisterDatasetReply **reply, mr_error *err);
