// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"berth.dev/berth/internal/kube/kinds"
)

// Unserved explains an error that means that the API server does not serve a resource; with is empty or names the feature that
// has to be enabled. It returns other errors as they are.
func Unserved(err error, resource, with string) error {
	if !kinds.NotServed(err) {
		return err
	}
	return fmt.Errorf("the API server does not serve %s: is Berth installed%s?", resource, with)
}
