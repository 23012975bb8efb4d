// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
)

func showEnvironments(o *command.Options, e *Environments, namespace string) error {
	if o.Output == printers.Name {
		for i := range e.Environments {
			fmt.Fprintln(o.Out, environmentName(e.Environments[i].Name))
		}
		return nil
	}
	if done, err := o.Print(e); done {
		return err
	}
	if len(e.Environments) == 0 {
		fmt.Fprintf(o.ErrOut, "No environments found in %s.\n", printers.InNamespace(namespace))
		return nil
	}
	t := &printers.Table{Header: []string{"NAMESPACE", "NAME", "STACK", "VERSION", "PHASE", "READY", "AGE"}}
	if o.Output == printers.Wide {
		t.Header = append(t.Header, "DISPLAY-NAME", "RUNS-IN", "REVISION", "LABELS", "CONTROLLER", "MESSAGE")
	}
	for i := range e.Environments {
		s := &e.Environments[i]
		t.Add(s.Namespace, s.Name, s.Stack, s.Version, string(s.Phase), s.Ready, o.Age(s.Created),
			s.DisplayName, s.RunsIn, printers.Number(s.Revision), labels.Set(s.Labels).String(), string(s.Controller), s.Message)
	}
	if err := t.Write(o.Out, namespace == ""); err != nil {
		return err
	}
	for _, n := range e.Notes {
		o.Warn("%s", n)
	}
	return nil
}

// environmentName is how kubectl names an environment.
func environmentName(name string) string {
	return "environment." + v1alpha1.GroupName + "/" + name
}
