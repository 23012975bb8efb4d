// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rest makes a call to the REST API of limits. Its error has the code of the answer, as that of gRPC has; a call without a whole answer is
// lost.
func (s *scene) rest(method, path, body string) error {
	to := "http://" + s.Address + "/namespaces/" + s.Namespace + "/resource-limits" + path
	r, err := http.NewRequestWithContext(s.Ctx, method, to, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+s.Editor)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	if answer.StatusCode < http.StatusBadRequest {
		return nil
	}
	var refusal struct{ Code codes.Code }
	if err := json.Unmarshal(text, &refusal); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return status.Error(refusal.Code, string(text))
}

// restLimits are the methods of limits, called by REST.
func (s *scene) restLimits() []method {
	text := func(request string) string {
		return fmt.Sprintf(`{"name":%q,"description":%[2]q,"labels":{"request":%[2]q},"limits":{"cpu":"1","memory":"1Gi"}}`, name, request)
	}
	var all []method
	for _, m := range s.limits() {
		switch m.name {
		case "CreateResourceLimit":
			m.name, m.call = "POST", func(request string) error { return s.rest(http.MethodPost, "", text(request)) }
		case "UpdateResourceLimit":
			m.name, m.call = "PUT", func(request string) error { return s.rest(http.MethodPut, "/"+name, text(request)) }
		case "DeleteResourceLimit":
			m.name, m.call = "DELETE", func(string) error { return s.rest(http.MethodDelete, "/"+name, "") }
		}
		all = append(all, m)
	}
	return all
}
