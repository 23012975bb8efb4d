// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// Stack is a stack that is there to be used by its name.
type Stack struct {
	Name, Version, Description string
	Stack                      v1alpha1.ApplicationStack
}

// Stacks returns the precomposed stacks, by name. Each is a copy, which the caller may change.
func Stacks() []Stack { return []Stack{postgres(), webPostgres(), webPostgresRedis()} }

// FindStack returns the precomposed stack of a name.
func FindStack(name string) (*Stack, bool) {
	list := Stacks()
	i := slices.IndexFunc(list, func(s Stack) bool { return s.Name == name })
	if i < 0 {
		return nil, false
	}
	return &list[i], true
}

// Expand makes a stack that has no component, but the name of a precomposed one, be that one. A version that it has stays:
// it is the caller's own version. The error is that no precomposed stack has the name.
func Expand(given *v1alpha1.ApplicationStack) error {
	if len(stack.Components(given)) > 0 {
		return nil
	}
	found, ok := FindStack(given.Name)
	if !ok {
		var names []string
		for _, s := range Stacks() {
			names = append(names, s.Name)
		}
		return fmt.Errorf("has no component, and its name %q is not one of the known stacks: %s", given.Name, strings.Join(names, ", "))
	}
	version := given.Version
	*given = found.Stack
	given.Version = cmp.Or(version, given.Version)
	return nil
}

func webPostgres() Stack {
	return Stack{
		Name: "web-postgres", Version: "1", Description: "nginx before a Node.js backend with a PostgreSQL database",
		Stack: v1alpha1.ApplicationStack{
			Name: "web-postgres", Version: "1",
			Database: postgresDatabase(),
			Backend: &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{
				Image: "node:22-alpine", Command: []string{
					"node", "-e",
					"require('http').createServer((_, r) => r.end('ok')).listen(3000)",
				},
				Ports: tcp(3000), Resources: sized("500m", "512Mi", ""), RestartPolicy: v1alpha1.RestartUnlessStopped,
			}},
			Frontend: &v1alpha1.FrontendComponent{Container: v1alpha1.EnvironmentContainer{
				Image: "nginx:1.29-alpine", Ports: tcp(80), Resources: sized("250m", "128Mi",
					""), RestartPolicy: v1alpha1.RestartUnlessStopped,
			}},
		},
	}
}

func webPostgresRedis() Stack {
	s := webPostgres()
	s.Name, s.Description = "web-postgres-redis", "web-postgres with a Redis cache that answers as redis-cache"
	s.Stack.Name = s.Name
	s.Stack.AdditionalServices = []v1alpha1.AdditionalService{{Name: "redis-cache", Container: v1alpha1.EnvironmentContainer{
		Image: "redis:8-alpine", Ports: tcp(6379), Resources: sized("250m", "256Mi", ""), RestartPolicy: v1alpha1.RestartUnlessStopped,
		HealthCheck: &v1alpha1.EnvironmentHealthCheck{
			Command: []string{"redis-cli", "ping"}, IntervalSeconds: 30, TimeoutSeconds: 5,
			Retries: 3,
		},
	}}}
	return s
}

func postgres() Stack {
	return Stack{
		Name: "postgres", Version: "1", Description: "a PostgreSQL database alone",
		Stack: v1alpha1.ApplicationStack{Name: "postgres", Version: "1", Database: postgresDatabase()},
	}
}

func postgresDatabase() *v1alpha1.DatabaseComponent {
	return &v1alpha1.DatabaseComponent{
		DatabaseName: "app", Username: "app", PersistentStorage: true,
		Container: v1alpha1.EnvironmentContainer{
			Image:         "postgres:17-alpine",
			Ports:         tcp(postgresPort),
			Resources:     sized("500m", "512Mi", "10Gi"),
			RestartPolicy: v1alpha1.RestartUnlessStopped,
		},
	}
}

func tcp(port int32) []v1alpha1.EnvironmentPort {
	return []v1alpha1.EnvironmentPort{{ContainerPort: port, Protocol: v1alpha1.ProtocolTCP}}
}

func sized(cpu, memory, disk string) *v1alpha1.EnvironmentResources {
	return &v1alpha1.EnvironmentResources{CPU: cpu, Memory: memory, Disk: disk}
}
