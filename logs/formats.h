/* formats.h - the readers that the table of formats names; each has a file of its own. */
#ifndef MW_LOGS_FORMATS_H
#define MW_LOGS_FORMATS_H

#include "logs/logs.h"

#define MW_LOG_FORMAT(name)                                                                        \
    bool mw_log_is_##name(const struct mw_log_text *in);                                           \
    bool mw_log_read_##name(const struct mw_log_text *in, struct mw_log *out, GError **error)

MW_LOG_FORMAT(answer);        /* simulate as JSON */
MW_LOG_FORMAT(baseline);      /* check's own */
MW_LOG_FORMAT(deepspeed);     /* timers and throughput */
MW_LOG_FORMAT(exported);      /* a job that export has written */
MW_LOG_FORMAT(lines);         /* memwall's own log */
MW_LOG_FORMAT(megatron);      /* iterations and timers */
MW_LOG_FORMAT(run);           /* run as JSON */
MW_LOG_FORMAT(sweep_csv);     /* rows */
MW_LOG_FORMAT(sweep_json);    /* the same as JSON */
MW_LOG_FORMAT(timeline);      /* a saved run */
MW_LOG_FORMAT(torchtitan);    /* its metrics on the terminal */
MW_LOG_FORMAT(trainer_state); /* Hugging Face's trainer_state.json */

#endif
