// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/apis/v1alpha1"
)

func (o *options) showEnvironments(e *Environments, namespace string) error {
	if o.output == asName {
		for i := range e.Environments {
			fmt.Fprintln(o.Out, environmentName(e.Environments[i].Name))
		}
		return nil
	}
	if done, err := o.printed(e); done {
		return err
	}
	if len(e.Environments) == 0 {
		fmt.Fprintf(o.ErrOut, "No environments found in %s.\n", inNamespace(namespace))
		return nil
	}
	t := &table{header: []string{"NAMESPACE", "NAME", "STACK", "VERSION", "PHASE", "READY", "AGE"}}
	if o.output == asWide {
		t.header = append(t.header, "DISPLAY-NAME", "RUNS-IN", "REVISION", "LABELS", "CONTROLLER", "MESSAGE")
	}
	for i := range e.Environments {
		s := &e.Environments[i]
		t.add(s.Namespace, s.Name, s.Stack, s.Version, string(s.Phase), s.Ready, age(o.now(), s.Created.Time),
			s.DisplayName, s.RunsIn, number(s.Revision), labels.Set(s.Labels).String(), string(s.Controller), s.Message)
	}
	if err := t.write(o.Out, namespace == ""); err != nil {
		return err
	}
	for _, n := range e.Notes {
		o.warn("%s", n)
	}
	return nil
}

// environmentName is how kubectl names an environment.
func environmentName(name string) string {
	return "environment." + v1alpha1.GroupName + "/" + name
}
