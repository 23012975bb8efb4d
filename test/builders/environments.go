// SPDX-License-Identifier: Apache-2.0

package builders

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// CompleteEnvironment makes an environment with every component, after what the smoke client of the service sends.
func CompleteEnvironment() *v1alpha1.Environment {
	check := func(command ...string) *v1alpha1.EnvironmentHealthCheck {
		return &v1alpha1.EnvironmentHealthCheck{
			Command: command, IntervalSeconds: 30, TimeoutSeconds: 5, Retries: 3, StartPeriodSeconds: 10,
		}
	}
	tcp := func(port int32) []v1alpha1.EnvironmentPort {
		return []v1alpha1.EnvironmentPort{{ContainerPort: port, Protocol: v1alpha1.ProtocolTCP}}
	}
	sized := func(cpu, memory, disk string) *v1alpha1.EnvironmentResources {
		return &v1alpha1.EnvironmentResources{CPU: cpu, Memory: memory, Disk: disk}
	}
	return &v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop-0a1b2c3d", Generation: 1},
		Spec: v1alpha1.EnvironmentSpec{
			RunPolicy: v1alpha1.RunPolicyRunning,
			Stack: v1alpha1.ApplicationStack{
				Name: "web", Version: "1.0.0",
				Database: &v1alpha1.DatabaseComponent{
					DatabaseName: "shop", Username: "owner", PersistentStorage: true,
					Container: v1alpha1.EnvironmentContainer{Image: "postgres:17", Ports: tcp(5432), Resources: sized("1", "1Gi", "10Gi")},
				},
				AdditionalServices: []v1alpha1.AdditionalService{{Name: "redis-cache", Container: v1alpha1.EnvironmentContainer{
					Image: "redis:8", Ports: tcp(6379), HealthCheck: check("redis-cli", "ping"),
				}}},
				Backend: &v1alpha1.BackendComponent{Container: v1alpha1.EnvironmentContainer{
					Image: "node:22", Command: []string{"node"}, Args: []string{"server.js", "--verbose"}, Ports: tcp(3000),
					Env:       map[string]v1alpha1.ConfigValue{"NODE_ENV": "production", "LOG": "info"},
					Resources: sized("500m", "512Mi", "2Gi"), HealthCheck: check("CMD", "curl", "-f", "http://localhost:3000"),
					RestartPolicy: v1alpha1.RestartUnlessStopped,
				}},
				Frontend: &v1alpha1.FrontendComponent{
					Domains: []string{"shop.example", "*.shop.example"}, TLSEnabled: true,
					Container: v1alpha1.EnvironmentContainer{
						Image: "nginx:1.29", Ports: []v1alpha1.EnvironmentPort{{ContainerPort: 80, HostPort: 8080, Protocol: v1alpha1.ProtocolTCP}},
						RestartPolicy: v1alpha1.RestartAlways,
					},
				},
			},
		},
	}
}
