/* dtype.h - what numbers are, apart from plans (plan/plan.h): kernels know no more. */
#ifndef MW_PLAN_DTYPE_H
#define MW_PLAN_DTYPE_H

enum mw_dtype { MW_DTYPE_NONE, MW_DTYPE_BF16, MW_DTYPE_FP16, MW_DTYPE_FP32, MW_DTYPE_COUNT };

#endif
