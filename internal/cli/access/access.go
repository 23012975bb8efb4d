// SPDX-License-Identifier: Apache-2.0

// Package access reads a cluster as the user of the kubeconfig.
package access

import (
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/live"
)

// Installation is the one of the flags.
func Installation(o *command.Options) live.Installation {
	return live.Installation{SystemNamespace: o.SystemNamespace, SchedulerConfig: o.SchedulerConfig}
}

// User returns the namespace of the command, and what reads and plans as the user of the kubeconfig.
func User(o *command.Options) (string, *live.User, error) {
	config, err := o.RestConfig()
	if err != nil {
		return "", nil, err
	}
	namespace, c, err := o.Cluster()
	return namespace, &live.User{Installation: Installation(o), Config: config, Client: c, Now: o.Now, Warn: o.Warn}, err
}
