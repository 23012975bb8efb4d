// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Do sends a request and decodes the answer. Into decodes itself, which no
// codec of a scheme would let it.
func Do(ctx context.Context, r *rest.Request, into any) error {
	result := r.Do(ctx)
	// Unlike Raw this says what the API server said.
	if err := result.Error(); err != nil {
		return err
	}
	b, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("decode an answer of the API server: %w", err)
	}
	return nil
}

// Write sends an object in the name of a field manager, and decodes what the
// API server made of it. A field that the kind does not have is an error.
func Write(ctx context.Context, r *rest.Request, fieldManager string, object, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode an object: %w", err)
	}
	return Do(ctx, r.SetHeader("Content-Type", runtime.ContentTypeJSON).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationStrict).Body(body), into)
}

// Delete sends a request to delete what meets the preconditions, and nothing
// else of its name.
func Delete(ctx context.Context, r *rest.Request, only metav1.Preconditions) error {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: &only,
	})
	if err != nil {
		return fmt.Errorf("encode the options: %w", err)
	}
	result := r.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(options).Do(ctx)
	return result.Error()
}
