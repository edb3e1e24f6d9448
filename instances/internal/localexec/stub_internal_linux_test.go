// SPDX-License-Identifier: Apache-2.0

package localexec

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/child"
	"github.com/seed-141914ff/okara/instances/internal/records"
	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/run"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/oci"
)

// stubChild acts as the child, as told by a variable of its spec.
func stubChild(args []string) error {
	var o sandbox.Order
	if err := sandbox.Harden(); err != nil {
		return err
	}
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return err
	}
	if len(o.Ask) > 0 {
		return child.Answer(o, os.Environ(), os.Stdout)
	}
	var do stubOrder
	if err := json.Unmarshal(o.Spec.Variables["stub"], &do); err != nil {
		return err
	}
	if do.Real {
		return child.Run(context.Background(), child.Options{Order: o, Getenv: os.Getenv, UserAgent: "okara/test"})
	}
	about := strings.Join(append(os.Environ(), args...), "\n")
	if err := os.WriteFile(filepath.Join(o.Scratch, "about"), []byte(about), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.Scratch, "log"), []byte("the log"), 0o600); err != nil {
		return err
	}
	if do.Tool != "" {
		dir, err := o.Open()
		if err == nil {
			err = dir.LinkErrored("")
		}
		if err != nil {
			return err
		}
		if err := files.Replace(filepath.Join(o.Scratch, "attempt.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		out, err := os.Create(filepath.Join(o.Scratch, "said"))
		if err != nil {
			return err
		}
		for _, script := range append([]string{do.Tool}, do.Then...) {
			t, err := o.Start(dir, sandbox.Command{Args: []string{"-c", script}, Dir: sandbox.Tool, Env: []string{"PATH=/usr/bin:/bin", "A=1"}, Stdout: out, Stderr: out, Alone: true})
			if err != nil {
				return err
			}
			if err := t.Wait(); err != nil {
				return err
			}
		}
	}
	if do.Hang {
		if err := os.WriteFile(filepath.Join(o.Scratch, "hangs"), nil, 0o600); err != nil {
			return err
		}
		time.Sleep(time.Hour) // until it is killed
	}
	if do.Nonce == "" {
		return errors.New("nothing more to do")
	}
	repo, err := stubRepo(o.Spec)
	if err != nil {
		return err
	}
	b, err := json.Marshal(run.Report{Version: 1, Nonce: do.Nonce, Kind: o.Spec.Ref.Kind, Result: lifecycle.Result{Outcome: lifecycle.Done, Resources: 3}})
	if err != nil {
		return err
	}
	if do.Unanswered {
		return os.WriteFile(filepath.Join(o.Scratch, sandbox.ResultFile), b, 0o600)
	}
	return repo.PutRun(context.Background(), o.Spec.Ref, records.RunFiles{Result: b, Log: []byte("the whole log")})
}

// stubOrder is what a stub child does, in this order.
type stubOrder struct {
	Real  bool     // run the real child, with only its tool a stub
	Tool  string   // script of the tool
	Then  []string // scripts of its further commands
	Hang  bool
	Nonce string // of its result; "": no result
	// Unanswered: the registry does not answer, and the result stays in the folder.
	Unanswered bool
}

func stubRepo(s run.Attempt) (records.InstanceRepo, error) {
	host, name, _ := strings.Cut(s.Repository, "/")
	client, err := oci.New(host, oci.Options{})
	if err != nil {
		return records.InstanceRepo{}, err
	}
	repo, err := client.Repo(name)
	return records.InstanceRepo{Repo: repo}, err
}
