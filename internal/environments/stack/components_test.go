// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// The order in which components start, how many there are, and what they run as.
func TestComponents(t *testing.T) {
	stack := &builders.CompleteEnvironment().Spec.Stack
	stack.AdditionalServices = append(stack.AdditionalServices, v1alpha1.AdditionalService{Name: "a-queue", Replicas: new(int32(2))})
	stack.AdditionalServices[0].Container.RestartPolicy = v1alpha1.RestartOnFailure
	stack.Backend.Replicas, stack.Backend.Container.RestartPolicy = new(int32(0)), v1alpha1.RestartNo
	var got []string
	for _, c := range Components(stack) {
		got = append(got, fmt.Sprint(c.Stage, " ", c.Name, " ", c.Replicas, " ", c.Workload))
	}
	assert.Equal(t, []string{
		"1 database 1 StatefulSet", "2 redis-cache 1 Job", "2 a-queue 2 Deployment", "3 backend 0 Job", "4 frontend 1 Deployment",
	}, got)
	assert.Empty(t, Components(&v1alpha1.ApplicationStack{Name: "web"}))
	assert.Same(t, &stack.Frontend.Container, Find(Components(stack), Frontend).Container, "they are those of the stack")
	assert.Nil(t, Find(Components(stack), "nothing"))
}
