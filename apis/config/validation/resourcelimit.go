// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/config"
)

// ValidateResourceLimitArgs returns every error in the arguments of the ResourceLimit plugin after defaulting. With a
// nil path, paths start at the arguments.
func ValidateResourceLimitArgs(path *field.Path, args *config.ResourceLimitArgs) field.ErrorList {
	var errs field.ErrorList
	if args.DefaultNamespace != "" {
		errs = validateNamespace(path.Child("defaultNamespace"), args.DefaultNamespace)
	}

	return append(errs, validateRange(path.Child("syncTimeoutSeconds"), args.SyncTimeoutSeconds, 1, maxSyncTimeoutSeconds)...)
}
