// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
)

// cloud stands in for tofu-controller and what its runs make: a resource a Terraform, by its
// state's address. As there, a suspended Terraform is not finalised, and one without source or
// token hangs. States go to okara serve, with the run's token.
type cloud struct {
	client client.Client
	set    kubernetes.Interface
	pause  time.Duration // between two rounds
	away   atomic.Bool   // the controller was killed

	mu   sync.Mutex // guards the field below
	made map[string]string
}

const cloudFinalizer = "finalizers.tf.contrib.fluxcd.io"

// existingThings returns the existing resources, each with the Terraform that created it.
func (c *cloud) existingThings() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.made)
}

// reconcileAlways reconciles all Terraforms repeatedly until ctx ends.
func (c *cloud) reconcileAlways(ctx context.Context) {
	for ctx.Err() == nil {
		if !c.away.Load() {
			if err := c.reconcile(ctx); err != nil && ctx.Err() == nil {
				fmt.Println("the cloud:", err)
			}
		}
		time.Sleep(c.pause)
	}
}

func (c *cloud) reconcile(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(terraformVersion)
	list.SetKind("TerraformList")
	if err := c.client.List(ctx, list); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range list.Items {
		g.Go(func() error {
			err := c.reconcileOne(ctx, &list.Items[i])
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return nil // another writer was first: retry in the next reconcile
			}
			return err
		})
	}
	return g.Wait()
}

func (c *cloud) reconcileOne(ctx context.Context, o *unstructured.Unstructured) error {
	if c.away.Load() || fluxobj.Suspended(o) {
		return nil
	}
	if o.GetDeletionTimestamp() != nil {
		return c.finalize(ctx, o)
	}
	if !slices.Contains(o.GetFinalizers(), cloudFinalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), cloudFinalizer))
		return c.client.Update(ctx, o)
	}
	if fluxobj.Observed(o) && fluxobj.Conditions(o)["Ready"].True() {
		return nil
	}
	digest, err := c.sourceDigest(ctx, o)
	if err == nil {
		err = c.writeResource(ctx, o, true)
	}
	if err != nil {
		return c.recordRun(ctx, o, "", err)
	}
	return c.recordRun(ctx, o, "1.0.0@"+digest, nil)
}

// finalize destroys the resource of a Terraform if its spec says so.
func (c *cloud) finalize(ctx context.Context, o *unstructured.Unstructured) error {
	if !slices.Contains(o.GetFinalizers(), cloudFinalizer) {
		return nil
	}
	if destroy, _, _ := unstructured.NestedBool(o.Object, "spec", "destroyResourcesOnDeletion"); destroy {
		_, err := c.sourceDigest(ctx, o)
		if err == nil {
			err = c.writeResource(ctx, o, false)
		}
		if err != nil {
			return c.recordRun(ctx, o, "", err)
		}
	}
	o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == cloudFinalizer }))
	return c.client.Update(ctx, o)
}

func (c *cloud) sourceDigest(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	source := &unstructured.Unstructured{}
	source.SetAPIVersion(fluxobj.SourceVersion)
	source.SetKind(fluxobj.OCIKind)
	err := c.client.Get(ctx, client.ObjectKeyFromObject(o), source)
	return fluxobj.Text(source, "spec", "ref", "digest"), err
}

var stateAddress = regexp.MustCompile(`\baddress\s*=\s*"([^"]+)"`)

// writeResource creates or destroys the resource of a Terraform, and records that in its state.
func (c *cloud) writeResource(ctx context.Context, o *unstructured.Unstructured, exists bool) error {
	m := stateAddress.FindStringSubmatch(fluxobj.Text(o, "spec", "backendConfig", "customConfiguration"))
	if m == nil {
		return errors.New("the Terraform names no state")
	}
	secret, err := c.set.CoreV1().Secrets(o.GetNamespace()).Get(ctx, o.GetName()+"-okara-run", metav1.GetOptions{})
	if err != nil {
		return err
	}
	resources := ""
	if exists {
		resources = `{"mode":"managed","type":"terraform_data","name":"a","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{}}]}`
	}
	state := fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":%d,"lineage":"a","outputs":{},"resources":[%s]}`, time.Now().UnixMilli(), resources)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m[1], strings.NewReader(state))
	if err != nil {
		return err
	}
	req.SetBasicAuth("run", string(secret.Data["token"]))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		locked := &lockedError{text: string(answer)}
		if resp.StatusCode == http.StatusLocked && json.Unmarshal(answer, locked) == nil {
			return locked
		}
		return errors.Join(err, fmt.Errorf("HTTP error: %d %s", resp.StatusCode, answer))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if exists {
		c.made[m[1]] = o.GetNamespace() + "/" + o.GetName()
	} else {
		delete(c.made, m[1])
	}
	return nil
}

// lockedError says that another holder has the lock of a state.
type lockedError struct {
	ID   string
	text string
}

func (e *lockedError) Error() string { return "the state is locked: " + e.text }

// recordRun records the result of a run in the status, as tofu-controller does.
func (c *cloud) recordRun(ctx context.Context, o *unstructured.Unstructured, revision string, wrong error) error {
	ready := map[string]any{"type": "Ready", "status": "True", "reason": "TerraformAppliedSucceed", "message": "", "observedGeneration": o.GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
	conditions := []any{ready}
	status := map[string]any{"lastHandledReconcileAt": o.GetAnnotations()[fluxobj.AnnotationRequest]}
	if locked, ok := errors.AsType[*lockedError](wrong); ok {
		status["lock"] = map[string]any{"pending": locked.ID}
		conditions = append(conditions, map[string]any{"type": "StateLocked", "status": "True", "reason": "Locked", "message": "", "lastTransitionTime": ready["lastTransitionTime"]})
	}
	if wrong != nil {
		if had := fluxobj.Conditions(o)["Ready"]; had.False() && had.Message == wrong.Error() && had.Generation == o.GetGeneration() && fluxobj.Handled(o) {
			return nil
		}
		ready["status"] = "False"
		ready["reason"] = "TFExecApplyFailed"
		ready["message"] = wrong.Error()
	} else {
		status["observedGeneration"] = o.GetGeneration()
		status["lastPlannedGeneration"] = o.GetGeneration()
		status["lastPlannedRevision"] = revision
		status["lastAppliedRevision"] = revision
	}
	status["conditions"] = conditions
	o.Object["status"] = status
	return c.client.Status().Update(ctx, o)
}
