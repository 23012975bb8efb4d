// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Default returns the configuration without a file.
func Default() *Configuration {
	return &Configuration{
		TypeMeta:      metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Controllers:   []string{allByDefault},
		ResyncSeconds: 30,
		LeaderElection: LeaderElection{
			Enabled:              true,
			LeaseDurationSeconds: 15,
			RenewDeadlineSeconds: 10,
			RetryPeriodSeconds:   2,
		},
		Metrics:          Metrics{BindAddress: ":8443", Secure: true},
		Health:           Health{BindAddress: ":8081"},
		ClientConnection: ClientConnection{QPS: 300, Burst: 600},
		Mix:              defaultMix(),
		Webhook:          defaultWebhook(),
		Services:         defaultServices(),
		Console:          defaultConsole(),
		Records:          defaultRecords(),
		Environments:     defaultEnvironments(),
	}
}

// Load reads and parses a configuration file.
func Load(path string) (*Configuration, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("load configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("load configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse decodes a configuration over the defaults. It rejects unknown fields but does not validate values: Validate
// does, after flags have overridden some of them.
func Parse(data []byte) (*Configuration, error) {
	document, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	if err := checkType(document); err != nil {
		return nil, err
	}
	c := Default()
	// Unlike encoding/json, this does not accept dryrun for dryRun.
	strict, err := kjson.UnmarshalStrict(document, c)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if len(c.Namespaces) == 0 {
		c.Namespaces = nil // nil is the only form of all namespaces
	}
	return c, nil
}

// onlyDocument returns the only document of a YAML text as JSON.
func onlyDocument(data []byte) ([]byte, error) {
	var only []byte
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		document, err = yaml.YAMLToJSONStrict(document)
		switch {
		case err != nil:
			return nil, err
		case string(document) == "null": // only comments
		case only != nil:
			return nil, errors.New("the file has more than one document")
		default:
			only = document
		}
	}
	if only == nil {
		return nil, errors.New("the file has no document")
	}
	return only, nil
}

// checkType runs before the fields are decoded, which have no meaning in a file of another kind.
func checkType(document []byte) error {
	var t metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &t); err != nil {
		return err
	}
	if t.APIVersion != APIVersion {
		return fmt.Errorf("apiVersion is %q, not %q", t.APIVersion, APIVersion)
	}
	if t.Kind != Kind {
		return fmt.Errorf("kind is %q, not %q", t.Kind, Kind)
	}
	return nil
}
