#include "cli/doubts.h"

#include <string.h>

#include "cli/cli.h"
#include "exec/device/cpu/kernels.h"
#include "exec/host/machine.h"

/* What a profile says about its own measurement; NULL: nothing. */
struct origin {
    const char *name, *machine, *instruction_set, *disturbed;
    double rate_left; /* last rate divided by the first one */
};

static void
tell_machine(const struct origin *profile)
{
    g_autofree char *here = mw_machine_name();

    if (profile->machine && strcmp(profile->machine, here))
        cli_say("profile %s was measured on another machine (%s); this one is %s", profile->name,
                profile->machine, here);
}

/* How to compute with the profile's instruction set: ", or set MEMWALL_ISA=avx2"; or nothing. */
static char *
how_to_force(const char *name)
{
    for (int isa = 0; isa < MW_CPU_ISAS; isa++)
        if (!strcmp(name, mw_cpu_isa_name((enum mw_cpu_isa)isa)) &&
            mw_cpu_isa_runs((enum mw_cpu_isa)isa))
            return g_strdup_printf(", or set %s=%s", MW_CPU_ISA_VARIABLE, name);
    return g_strdup("");
}

/* Only for a profile of this machine: a line about another machine implies another processor. */
static void
tell_instruction_set(const struct origin *profile)
{
    const char *measured = profile->instruction_set;
    g_autofree char *here = mw_machine_name();

    if (!measured || g_strcmp0(profile->machine, here))
        return;
    const char *used = mw_cpu_isa_name(mw_cpu_isa_used(NULL));
    g_autofree char *otherwise = how_to_force(measured);
    if (strcmp(measured, used))
        cli_say(
            "profile %s was measured with instruction set %s, and runs here use %s: its figures "
            "are not theirs; measure again with `memwall calibrate`%s",
            profile->name, measured, used, otherwise);
}

static void
tell_disturbed(const struct origin *profile)
{
    const char *disturbed = profile->disturbed;
    double left = disturbed ? profile->rate_left : 1;

    if (left < 1)
        cli_say("profile %s was measured while the machine slowed down (%s): real steps may be "
                "%sslower than predicted; measure again with `memwall calibrate`",
                profile->name, disturbed, left < 0.5 ? "several times " : "");
    else if (disturbed)
        cli_say("profile %s was measured while its machine was busy or changed its speed (%s): "
                "figures may be too low and predictions too slow; run `memwall calibrate` again "
                "when the machine is quiet",
                profile->name, disturbed);
}

static void
tell_doubts(const struct origin *profile)
{
    tell_machine(profile);
    tell_instruction_set(profile);
    tell_disturbed(profile);
}

void
cli_doubts_tell(const struct mw_profile *profile)
{
    const struct origin origin = {
        mw_profile_name(profile),
        mw_profile_word(profile, "machine"),
        mw_profile_word(profile, "instruction_set"),
        mw_profile_word(profile, "disturbed"),
        mw_hwprofile_rate_left(profile),
    };

    tell_doubts(&origin);
}

void
cli_doubts_tell_of(const struct memwall_answer *answer)
{
    const char *left = memwall_answer_key(answer, "profile.rate_left");
    const struct origin origin = {
        memwall_answer_key(answer, "profile.name"),
        memwall_answer_key(answer, "profile.machine"),
        memwall_answer_key(answer, "profile.instruction_set"),
        memwall_answer_key(answer, "profile.disturbed"),
        left ? g_ascii_strtod(left, NULL) : 1,
    };

    tell_doubts(&origin);
}
