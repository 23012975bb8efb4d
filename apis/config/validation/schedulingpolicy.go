// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/config"
)

// ValidateSchedulingPolicyArgs returns every error in the arguments of the SchedulingPolicy plugin after defaulting, except
// those of defaultPolicy, which the plugin compiles as it compiles the rules of a SchedulingPolicy. With a nil path, paths
// start at the arguments.
func ValidateSchedulingPolicyArgs(path *field.Path, args *config.SchedulingPolicyArgs) field.ErrorList {
	errs := validateNamespace(path.Child("lockNamespace"), args.LockNamespace)

	return append(errs, validateRange(path.Child("syncTimeoutSeconds"), args.SyncTimeoutSeconds, 1, maxSyncTimeoutSeconds)...)
}
