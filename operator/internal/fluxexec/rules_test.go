// SPDX-License-Identifier: Apache-2.0

package fluxexec_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/operator/internal/fluxexec"
)

// TestNeverWritten checks that no built object has a field that works differently than
// its name suggests, for any run.
//
// Shows: traps T2
// Shows: traps T3
// Shows: traps T5
// Shows: traps T10 | file mappings support only one home directory
// Shows: traps T12
func TestNeverWritten(t *testing.T) {
	never := map[string]string{
		"Terraform.spec.sourceRef.namespace":            "T2",
		"OCIRepository.spec.ref.tag":                    "T3",
		"OCIRepository.spec.ref.semver":                 "T3",
		"Terraform.spec.force":                          "T4",
		"Terraform.spec.vars.valueFrom":                 "T5",
		"Terraform.spec.values":                         "T5",
		"Terraform.spec.planOnly":                       "T8",
		"Terraform.spec.fileMappings":                   "T10",
		"Terraform.spec.backendConfigsFrom":             "T12",
		"Terraform.spec.runnerPodTemplate.spec.envFrom": "T12",
	}
	for _, name := range []string{"small", "whole", "off", "compare"} {
		objects := must.Get(fluxexec.Build(run(t, name)))(t)
		for _, o := range objects {
			var tree map[string]any
			must.Succeed(t, json.Unmarshal(must.Fixed(json.Marshal(o)), &tree))
			fields := 0
			walk(fmt.Sprint(tree["kind"]), tree, func(path string) {
				fields++
				if trap := never[path]; trap != "" {
					t.Errorf("%s has %s (%s)", name, path, trap)
				}
			})
			if fields < 10 {
				t.Errorf("%s has %d fields", name, fields)
			}
		}
	}
}

// walk visits the path of each field. The members of a list share the path of the list.
func walk(path string, value any, visit func(path string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			visit(path + "." + key)
			walk(path+"."+key, v, visit)
		}
	case []any:
		for _, v := range value {
			walk(path, v, visit)
		}
	}
}

// TestNames (T9) accepts the longest name from which names of pods, Secrets and labels
// can be derived, and rejects names that are not DNS labels.
//
// Shows: traps T9 | names that are too long for pods and Secrets
func TestNames(t *testing.T) {
	for name, right := range map[string]bool{
		strings.Repeat("a", 53): true, "a1-b": true,
		strings.Repeat("a", 54): false, "1a": false, "a-": false, "a.b": false, "A": false, "a_b": false, "": false,
	} {
		s := run(t, "small")
		s.Name = name
		if _, err := fluxexec.Build(s); (err == nil) != right {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestModuleTooLarge (T14) checks that a module that is too large for runners is refused
// before any object is created.
//
// Shows: traps T14
func TestModuleTooLarge(t *testing.T) {
	for size, right := range map[int64]bool{0: true, fluxexec.MaxModule: true, fluxexec.MaxModule + 1: false} {
		s := run(t, "small")
		s.Module.Size = size
		if objects, err := fluxexec.Build(s); (err == nil) != right || !right && (len(objects) > 0 || !strings.Contains(err.Error(), ".tfignore")) {
			t.Errorf("%d bytes: %d objects, %v", size, len(objects), err)
		}
	}
}

// TestEnvironmentIsQuiet (T11) rejects variables that add output which tofu-controller
// would parse.
//
// Shows: traps T11
func TestEnvironmentIsQuiet(t *testing.T) {
	for name, right := range map[string]bool{
		"AWS_REGION": true, "TF_VAR_name": true,
		"TF_LOG": false, "TF_LOG_CORE": false, "TF_CLI_ARGS": false, "TF_CLI_ARGS_plan": false, "TF_CLI_CONFIG_FILE": false,
		"TF_ENCRYPTION": false, "TF_HTTP_ADDRESS": false,
	} {
		s := run(t, "small")
		s.Runner = &fluxexec.Runner{Env: []corev1.EnvVar{{Name: name, Value: "x"}}}
		if _, err := fluxexec.Build(s); (err == nil) != right {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEncryption (T15) checks that states and plans are encrypted by an environment
// variable that the runner reads from a Secret, and that no object contains the
// configuration.
//
// Shows: traps T15
func TestEncryption(t *testing.T) {
	s := run(t, "small")
	s.Encryption = &fluxexec.SecretKey{Secret: "keys", Key: "config"}
	objects := must.Get(fluxexec.Build(s))(t)
	if text := string(must.Fixed(json.Marshal(objects))); !strings.Contains(text, `{"name":"TF_ENCRYPTION","valueFrom":{"secretKeyRef":{"key":"config","name":"keys"}}}`) {
		t.Errorf("built %s", text)
	}
}

// TestOutputsGo (T7) deletes the outputs of a run that is gone, which no other controller
// here deletes, but not a Secret of that name that the run did not write.
//
// Shows: traps T7
func TestOutputsGo(t *testing.T) {
	for owner, goes := range map[string]bool{"greeting": true, "other": false, "": false} {
		s := newSite(t, "small")
		s.spec.OutputsSecret = "raw"
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.spec.Namespace, Name: "raw"}}
		if owner != "" {
			secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "infra.contrib.fluxcd.io/v1alpha2", Kind: "Terraform", Name: owner, UID: "gone"}}
		}
		must.Succeed(t, s.Create(t.Context(), secret))
		if gone, err := s.exec.Clean(t.Context(), s.spec); err != nil || !gone {
			t.Errorf("gone %t: %v", gone, err)
		}
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); (client.IgnoreNotFound(err) == nil && err != nil) != goes {
			t.Errorf("the Secret of %q: %v", owner, err)
		}
	}
}
