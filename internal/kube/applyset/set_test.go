// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Internal details of the API server's answer are not in a condition.
func TestARefusalNamesFieldsOnly(t *testing.T) {
	refused := apierrors.NewInvalid(schema.GroupKind{Group: "berth.dev", Kind: "CapacityMix"}, "cart", field.ErrorList{
		field.Required(field.NewPath("spec", "selector"), ""),
		field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"),
	})
	err := Refuse(v1alpha1.ReasonRefused, refused)
	assert.EqualError(t, err, `CapacityMix.berth.dev "cart" is invalid: [spec.selector: Required value]`)
	assert.Same(t, refused, errors.Unwrap(err))
}
