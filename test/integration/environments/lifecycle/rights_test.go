// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// rights are checked after all tests.
var rights = testenv.Rights{
	User: cluster.BerthEnvironmentsUser, ClusterRoles: []string{"berth-environments", "berth-environments-services"}, Roles: []string{"berth-environments"},
	Applied: true,
	SometimesUsed: map[string]string{
		"get gateway.networking.k8s.io/httproutes": "whether the name is taken, in the namespace of an environment's object and with a Gateway",

		"patch /events":   "the recorder increments the count of a repeated event",
		"update /secrets": "the Secret of credentials that an update changes: services/environments has tests of that",
		"update berth.dev/environments/finalizers":         "the admission plugin OwnerReferencesPermissionEnforcement checks it, which is off here",
		"create authentication.k8s.io/tokenreviews":        "who reads /metrics and the caller: test/integration/limits/wire",
		"create authorization.k8s.io/subjectaccessreviews": "the same",
	},
}
