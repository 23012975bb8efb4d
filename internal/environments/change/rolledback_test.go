// SPDX-License-Identifier: Apache-2.0

package change

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
)

// The gRPC service deletes the Secret that an update replaces: an old revision names one that does not exist any more.
func TestARollbackKeepsTheCredentialsOfTheService(t *testing.T) {
	of := func(database, backend string) *v1alpha1.EnvironmentSpec {
		ref := func(name string) *v1alpha1.EnvironmentSecret {
			if name == "" {
				return nil
			}
			return &v1alpha1.EnvironmentSecret{Name: name}
		}
		return &v1alpha1.EnvironmentSpec{Stack: v1alpha1.ApplicationStack{
			Database: &v1alpha1.DatabaseComponent{SecretRef: ref(database)}, Backend: &v1alpha1.BackendComponent{SecretRef: ref(backend)},
		}}
	}
	for name, c := range map[string]struct{ now, then, want *v1alpha1.EnvironmentSpec }{
		"replaced by an update": {
			of("shop-credentials-new", "shop-credentials-new"), of("shop-credentials", "shop-credentials"),
			of("shop-credentials-new", "shop-credentials-new"),
		},
		"another owner's then": {of("shop-credentials", "shop-credentials"), of("mine", "mine"), of("mine", "mine")},
		"another owner's now":  {of("mine", "mine"), of("shop-credentials", "shop-credentials"), of("shop-credentials", "shop-credentials")},
		"none then":            {of("shop-credentials", ""), of("", ""), of("", "")},
	} {
		assert.Equal(t, c.want, rolledBack("shop", c.now, c.then), name)
	}
}
