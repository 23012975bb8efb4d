// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A request of Berth to the API server may time out long before the deadline of the caller's call: the caller then tries again.
func TestATimeoutOfAClientIsNotTheCallersDeadline(t *testing.T) {
	stop := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(api.Close)
	t.Cleanup(func() { close(stop) })
	get := func(ctx context.Context, timeout time.Duration) *Error {
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, Timeout: timeout})
		require.NoError(t, err)
		_, err = kube.CoreV1().Secrets("n").Get(ctx, "x", metav1.GetOptions{})
		require.Error(t, err)
		return answerTo(ctx, err)
	}
	assert.Equal(t, codes.Unavailable, get(t.Context(), 20*time.Millisecond).Code, "client-go's own timeout")
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.Equal(t, codes.DeadlineExceeded, get(soon, 0).Code, "the caller's deadline")

	slow := apierrors.NewTimeoutError("the request did not complete", 0)
	assert.Equal(t, codes.Unavailable, answerTo(t.Context(), slow).Code)
	assert.Equal(t, codes.DeadlineExceeded, answerTo(soon, slow).Code)
	assert.Equal(t, codes.DeadlineExceeded, answerTo(t.Context(), Refuse(codes.DeadlineExceeded, "of a service")).Code)
	assert.Nil(t, answerTo(t.Context(), nil))
}

func TestAMissingObjectDiffersFromAnUnservedKind(t *testing.T) {
	resource := schema.GroupResource{Group: "berth.dev", Resource: "environments"}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no object":             {apierrors.NewNotFound(resource, "x"), true},
		"no object, wrapped":    {fmt.Errorf("get: %w", apierrors.NewNotFound(resource, "x")), true},
		"no kind":               {apierrors.NewGenericServerResponse(404, "get", resource, "x", "404 page not found", 0, true), false},
		"no kind, of no name":   {apierrors.NewGenericServerResponse(404, "list", resource, "", "404 page not found", 0, true), false},
		"no error":              {nil, false},
		"another error":         {errors.New("not found"), false},
		"another of the server": {apierrors.NewConflict(resource, "x", errors.New("old")), false},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, NotFound(tc.err))
			e := AsError(tc.err)
			assert.Equal(t, tc.want, e != nil && e.Code == codes.NotFound, "%v", e)
		})
	}
}

// A refusal of the API server names a field, and nothing internal to it.
func TestFieldsOfTheAPIServer(t *testing.T) {
	const checked = `Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors`
	want := map[string]string{
		"a rule about the name":              "metadata.name: must be short",
		"the same, with a type":              "metadata.name: must be short",
		"the same, of an older CRD":          "metadata.name: must be short",
		"a rule about the object":            "request: one of both must be there",
		"rules that were not checked":        "spec.cpu: must be a quantity",
		"a field that is in its message":     "spec.cpu: spec.cpu must be a quantity",
		"another field in the message":       "spec: 1.5 is too much",
		"a value, which the caller has sent": `spec.cpu: Invalid value: "much": spec.cpu must be a quantity`,
		"a value that is a word":             "spec.on: Invalid value: true: must be false",
	}
	for name, causes := range map[string][][2]string{
		"a rule about the name":              {{"metadata", "Invalid value: metadata.name must be short"}},
		"the same, with a type":              {{"metadata", `Invalid value: "object": metadata.name must be short`}},
		"the same, of an older CRD":          {{"<nil>", "Invalid value: metadata.name must be short"}},
		"a rule about the object":            {{"<nil>", `Invalid value: "object": one of both must be there`}},
		"rules that were not checked":        {{"<nil>", checked}, {"spec.cpu", "must be a quantity"}},
		"a field that is in its message":     {{"spec.cpu", "spec.cpu must be a quantity"}},
		"another field in the message":       {{"spec", "1.5 is too much"}},
		"a value, which the caller has sent": {{"spec.cpu", `Invalid value: "much": spec.cpu must be a quantity`}},
		"a value that is a word":             {{"spec.on", "Invalid value: true: must be false"}},
	} {
		status := apierrors.NewInvalid(schema.GroupKind{Group: "berth.dev", Kind: "ResourceLimit"}, "x", nil)
		status.ErrStatus.Details.Causes = nil
		for _, c := range causes {
			status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{Field: c[0], Message: c[1]})
		}
		e := AsError(status)
		assert.Equal(t, codes.InvalidArgument, e.Code, name)
		assert.Equal(t, want[name], e.Message, name)
		require.Len(t, e.Violations, 1, name)
		assert.Equal(t, want[name], e.Violations[0].Field+": "+e.Violations[0].Description, name)
	}
}

// Errors in JSON are described in the terms of JSON, with the keys that there are.
func TestRefusedJSONNamesNoTypeOfTheProgram(t *testing.T) {
	type inner struct {
		Labels map[string]string `json:"labels"`
		Size   *struct {
			CPU    string `json:"cpu,omitempty"`
			Memory string `json:"memory"`
		} `json:"size"`
		List []struct {
			Key string `json:"key"`
		} `json:"list"`
	}
	for text, want := range map[string]string{
		`{"labels":[]}`:             "below.labels: has the JSON type array, must be object",
		`[]`:                        "below: has the JSON type array, must be object",
		`{"colour":1}`:              "below.colour: unknown field, must be one of labels, list, size",
		`{"size":{"cpus":"1"}}`:     "below.size.cpus: unknown field, must be one of cpu, memory",
		`{"list":[{"k":"v"}]}`:      "below.list[0].k: unknown field, must be one of key",
		`{"labels":{},"labels":{}}`: "below.labels: duplicate field",
	} {
		assert.EqualError(t, Unmarshal("below", []byte(text), &inner{}), "INVALID_ARGUMENT: "+want, text)
	}
}

func TestRename(t *testing.T) {
	name := func(field string) string { return "spec." + field }
	require.NoError(t, Rename(nil, name))
	secret := errors.New("the secret")
	assert.Equal(t, secret, Rename(secret, name), "the server logs it as it is")
	assert.EqualError(t, Rename(Invalid(Violation{"cpu", "is negative"}), name), "INVALID_ARGUMENT: spec.cpu: is negative")
}
