/*
 * schemas.h - the schemas of JSON that memwall both writes and reads (docs/schema.json): the name,
 * and the version, which rises when the form changes.
 */
#ifndef MW_BASE_SCHEMAS_H
#define MW_BASE_SCHEMAS_H

#define MW_SCHEMA_ADVICE "memwall-advice/1"
#define MW_SCHEMA_ANSWER "memwall-answer/1"
#define MW_SCHEMA_BASELINE "memwall-baseline/1"
#define MW_SCHEMA_CUTS "memwall-cuts/1"
#define MW_SCHEMA_LARGEST "memwall-largest/1"
#define MW_SCHEMA_OBJECTIVE "memwall-objective/1"
#define MW_SCHEMA_RUN "memwall-run/1"
#define MW_SCHEMA_SERVING "memwall-serving/1"
#define MW_SCHEMA_SWEEP "memwall-sweep/1"
#define MW_SCHEMA_TRACE "memwall-trace/1" /* its first key is "schema" */

#endif
