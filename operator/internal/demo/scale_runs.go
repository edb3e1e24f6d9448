// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/fluxobj"
	"github.com/seed-141914ff/okara/operator/internal/rig"
	"github.com/seed-141914ff/okara/operator/internal/runaccess"
)

const (
	instancesNamespace = "okara-instances"
	clusterName        = "scale"
	terraformVersion   = "infra.contrib.fluxcd.io/v1alpha2"
	// looks is how often the operator reconciles all instances in an idle hour.
	looks = 6
)

// prepareRuns makes Flux's kinds, a module, and a stand-in for tofu-controller.
func (f *fleet) prepareRuns(ctx context.Context) error {
	if err := rig.FluxKinds(ctx, f.admin); err != nil {
		return err
	}
	if err := os.WriteFile(f.joinPath("app", "main.tf"), []byte("variable \"name\" {\n  type = string\n}\n"), 0o600); err != nil {
		return err
	}
	if err := f.runProgram(ctx, "okara", "publish", "module", f.joinPath("app"), "sandbox/vpc/aws", "1.0.0", "--registry", f.front, "--quiet"); err != nil {
		return err
	}
	self, err := f.set.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	f.user = self.Status.UserInfo.Username
	f.runs = []string{"--serve", "http://" + f.front, "--cluster", clusterName}
	f.cloud = &cloud{client: f.client, set: f.set, pause: f.pause, made: map[string]string{}}
	go f.cloud.reconcileAlways(ctx)
	return nil
}

// frontConfig lets okara serve accept tokens of runs, by public keys as from a ConfigMap.
func (f *fleet) frontConfig(ctx context.Context) (string, error) {
	c, err := client.New(f.admin, client.Options{})
	if err != nil {
		return "", err
	}
	issuer, err := runaccess.NewIssuer(runaccess.IssuerOptions{Client: c, Namespace: system, Cluster: clusterName})
	if err != nil {
		return "", err
	}
	if err := issuer.Keep(ctx); err != nil {
		return "", err
	}
	m, err := f.set.CoreV1().ConfigMaps(system).Get(ctx, runaccess.IssuerConfigMap, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	keys := f.joinPath("jwks.json")
	file := f.joinPath("serve.hcl")
	text := fmt.Sprintf("issuer %[1]q {\n  audiences = [\"okara\"]\n  jwks_file = %[2]q\n}\n"+
		"rule \"runs\" {\n  issuer = %[1]q\n  allow  = [\"write:state:%[3]s.{namespace}/{workspace}\"]\n}\n", issuer.Name(), keys, clusterName)
	return file, errors.Join(os.WriteFile(keys, []byte(m.Data[runaccess.IssuerKey]), 0o600), os.WriteFile(file, []byte(text), 0o600))
}

// launch makes a Template and Instances of different users, until all are Ready.
func (f *fleet) launch(ctx context.Context) error {
	if err := f.createTemplate(ctx); err != nil {
		return err
	}
	if err := callEach(ctx, f.instances, f.createInstance); err != nil {
		return err
	}
	return f.awaitReady(ctx, f.instances, v1alpha1.GroupVersion().WithKind("Instance"))
}

func (f *fleet) createTemplate(ctx context.Context) error {
	t := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: instancesNamespace, Name: "sandbox.vpc"}}
	t.Spec.Module = &v1alpha1.TemplateModule{Address: "sandbox/vpc/aws"}
	t.Spec.Parameters = []v1alpha1.TemplateParameter{{Name: "name"}}
	t.Spec.TTL = &v1alpha1.TemplateTTL{Default: "72h"}
	return f.client.Create(ctx, t)
}

// createInstance creates the nth Instance, for a user of its own.
func (f *fleet) createInstance(ctx context.Context, n int) error {
	o := &v1alpha1.Instance{ObjectMeta: metav1.ObjectMeta{Namespace: instancesNamespace, Name: instanceID(n)}}
	o.Spec.Template = "sandbox/vpc"
	o.Spec.CreatedBy = f.user
	o.Spec.Owner = &v1alpha1.Owner{Kind: "User", ID: fmt.Sprintf("user-%d", n)}
	o.Spec.Parameters = map[string]apiextensions.JSON{"name": {Raw: fmt.Appendf(nil, "%q", o.Name)}}
	return f.client.Create(ctx, o)
}

// instanceID returns the nth valid name of an Instance.
func instanceID(n int) string {
	const letters = "abcdefghjkmnpqrstvwxyz"
	id := []byte("aaaaaaaaaa")
	for i := len(id) - 1; n > 0; i-- {
		id[i] = letters[n%len(letters)]
		n = n / len(letters)
	}
	return string(id)
}

// callEach calls do n times, eight at a time.
func callEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// awaitReady waits until n objects are Ready, and prints how many every ten seconds.
func (f *fleet) awaitReady(ctx context.Context, n int, kind schema.GroupVersionKind) error {
	return pollUntil(ctx, time.Hour, func() (bool, error) {
		ready := 0
		err := fluxobj.EachObject(ctx, f.client, kind, func(o *unstructured.Unstructured) error {
			if c := fluxobj.Conditions(o)["Ready"]; c.True() {
				ready++
			} else if c.Message != "" {
				fmt.Println("not ready:", c.Reason, c.Message)
			}
			return nil
		})
		if err != nil || ready == n {
			return ready == n, err
		}
		fmt.Printf("%s %d are ready\n", time.Now().Format(time.TimeOnly), ready)
		time.Sleep(10 * time.Second)
		return false, nil
	})
}

// hourOfInstances reconciles all instances as often as an idle hour does.
func (f *fleet) hourOfInstances(ctx context.Context) error {
	t := &v1alpha1.Template{ObjectMeta: metav1.ObjectMeta{Namespace: instancesNamespace, Name: "sandbox.vpc"}}
	return f.printIdle(ctx, f.instances, counts{ourWrites: looks}, func() error {
		for n := range looks {
			if err := f.awaitPasses(ctx, "instances", 1, func() error { return touchObject(ctx, f.client, t, n) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// touchObject changes an annotation of an object that no controller reads.
func touchObject(ctx context.Context, c client.Client, o client.Object, n int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"scale.example.com/look":"%d"}}}`, n)
	return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
}

// awaitPasses calls do, and waits until the controller has reconciled so often.
func (f *fleet) awaitPasses(ctx context.Context, controller string, often int, do func() error) error {
	passes := func() (float64, error) {
		own, err := scrapePage(ctx, http.DefaultClient, "http://"+f.metrics+"/metrics")
		return own.sumSamples("controller_runtime_reconcile_total", `controller="`+controller+`"`), err
	}
	last, err := passes()
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := pollUntil(ctx, 10*time.Minute, func() (bool, error) {
		now, err := passes()
		return now >= last+float64(often), err
	}); err != nil {
		return fmt.Errorf("controller %s does not look: %w", controller, err)
	}
	return nil
}

// printIdle prints the numbers of requests and writes while happen does something that changes
// nothing, beside their bounds, for n objects. own are the writes of the test itself.
func (f *fleet) printIdle(ctx context.Context, n int, own counts, happen func() error) error {
	time.Sleep(5 * time.Second) // the reconciles that events triggered are done
	before, err := f.readCounts(ctx)
	if err != nil {
		return err
	}
	if err := happen(); err != nil {
		return err
	}
	after, err := f.readCounts(ctx)
	if err != nil {
		return err
	}
	return printTable([]figure{
		{"heap of the operator, MiB", after.heap, 256, 512},
		{"memory of the operator, MiB", after.resident, 256, 512},
		{"requests to the registry per object", (after.registry - before.registry) / float64(n), 0, 1},
		{"writes of statuses", after.statusWrites - before.statusWrites, 0, 0},
		{"other writes of objects of okara.dev", after.ourWrites - before.ourWrites - own.ourWrites, 0, 0},
		{"writes of objects of Flux", after.fluxWrites - before.fluxWrites - own.fluxWrites, 0, 0},
		{"writes of Secrets, accounts and roles", after.runWrites - before.runWrites, 0, 0},
		{"lists of objects of okara.dev", after.lists - before.lists, 0, 0},
	})
}
