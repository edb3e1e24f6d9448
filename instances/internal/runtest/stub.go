// SPDX-License-Identifier: Apache-2.0

package runtest

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Script is the behaviour of the stub tool, read from stub.json in the module: steps by command.
type Script map[string][]Step

// Step is one action of the stub; only one field is set.
type Step struct {
	Print     string // a line on standard output
	Stderr    string
	State     string // stores a state, as the s3 backend does
	Read      bool   // prints the state
	Environ   bool   // prints the environment and the arguments
	Files     bool   // prints the names of the root module's files
	Cat       string // prints a file
	Write     [2]string
	Append    string    // adds a byte to a file
	Link      [2]string // target, name
	Mark      string    // makes a file, so that a test knows where the stub is
	Await     string    // waits for a file
	Interrupt bool      // waits for an interrupt, and goes on
	Deaf      bool      // ignores interrupts
	Other     bool      // tries another workspace
	Exit      int
	Hold      string // leaves a process in a separate session that holds the output, for this many seconds
	Die       bool   // kills itself
	Sh        string // a script, which may fail
}

// What the tool prints of a plan, and after an apply, with -json.
const (
	Planned = `{"@level":"info","@message":"Plan: 1 to add, 0 to change, 0 to destroy.","changes":{"add":1,"change":0,"remove":0,"operation":"plan"},"type":"change_summary"}`
	Applied = `{"@level":"info","@message":"Apply complete! Resources: 1 added, 0 changed, 0 destroyed.","changes":{"add":1,"change":0,"remove":0,"operation":"apply"},"type":"change_summary"}`
)

// Failure returns an error as the tool prints it with -json.
func Failure(summary, detail string) string {
	return fmt.Sprintf(`{"@level":"error","@message":%q,"diagnostic":{"severity":"error","summary":%q,"detail":%q},"type":"diagnostic"}`, "Error: "+summary, summary, detail)
}

// Tool returns what runs one command of the stub, such as init.
func Tool(command string) func([]string) error {
	return func(args []string) error {
		b, err := os.ReadFile("stub.json")
		if err != nil {
			return err
		}
		var s Script
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		interrupted := make(chan os.Signal, 2)
		signal.Notify(interrupted, syscall.SIGINT)
		if command == "plan" && s["plan"] == nil {
			s["plan"] = []Step{{Print: Planned}}
		}
		for _, a := range args {
			if name, ok := strings.CutPrefix(a, "-out="); ok {
				if err := os.WriteFile(name, []byte("plan of "+filepath.Base(filepath.Dir(name))), 0o600); err != nil {
					return err
				}
			}
		}
		for _, step := range s[command] {
			if err := step.do(args, interrupted); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s Step) do(args []string, interrupted <-chan os.Signal) error {
	switch {
	case s.Print != "":
		fmt.Println(s.Print)
	case s.Stderr != "":
		fmt.Fprintln(os.Stderr, s.Stderr)
	case s.State != "":
		return workDir().Store(s.State)
	case s.Read:
		b, err := workDir().requestState(http.MethodGet, workDir().stateKey(), "")
		fmt.Println(string(b))
		return err
	case s.Other:
		_, err := workDir().requestState(http.MethodPut, "env:/other/"+workDir().stateKey(), "{}")
		fmt.Println("another workspace:", err)
	case s.Environ:
		fmt.Println(strings.Join(os.Environ(), "\n"))
		fmt.Println("args", args)
	case s.Files:
		names, err := filepath.Glob("*")
		hidden, err2 := filepath.Glob(".[a-z]*")
		fmt.Println("files", names, hidden)
		return errors.Join(err, err2)
	case s.Cat != "":
		b, err := os.ReadFile(s.Cat)
		fmt.Println(string(b))
		return err
	case s.Write[0] != "":
		return os.WriteFile(s.Write[0], []byte(s.Write[1]), 0o600)
	case s.Link[0] != "":
		return os.Symlink(s.Link[0], s.Link[1])
	case s.Mark != "":
		return os.WriteFile(s.Mark, nil, 0o600)
	case s.Await != "":
		for {
			if _, err := os.Stat(s.Await); err == nil {
				return nil
			}
			time.Sleep(5 * time.Millisecond)
		}
	case s.Interrupt:
		<-interrupted
	case s.Deaf:
		for range interrupted { // until it is killed
		}
	case s.Hold != "":
		cmd := exec.Command("setsid", "sleep", s.Hold)
		cmd.Stdout = os.Stdout
		cmd.Stderr = os.Stderr
		return cmd.Start()
	case s.Sh != "":
		cmd := exec.Command("/bin/sh", "-c", s.Sh)
		cmd.Stdout = os.Stdout
		cmd.Stderr = os.Stderr
		_ = cmd.Run() // it may fail
	case s.Die:
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		return self.Kill()
	case s.Exit != 0:
		os.Exit(s.Exit)
	}
	return nil
}

// Dir is where a stub runs: the folder of the root module, and that of the bridge.
type Dir struct{ Module, Bridge string }

func workDir() Dir { return Dir{".", os.Getenv("OKARA_RUN")} }

// Store stores a state. On failure it writes the state to a file, like the tool.
func (p Dir) Store(state string) error {
	if _, err := p.requestState(http.MethodPut, p.stateKey(), state); err != nil {
		fmt.Println(Failure("Failed to save state", err.Error()))
		return errors.Join(err, os.WriteFile(filepath.Join(p.Module, "errored.tfstate"), []byte(state), 0o600))
	}
	return nil
}

func (p Dir) stateKey() string {
	b, err := os.ReadFile(filepath.Join(p.Module, "okara_override.tf"))
	if m := regexp.MustCompile(`key +?= "(.*)"`).FindSubmatch(b); err == nil && m != nil {
		return string(m[1])
	}
	return "no override"
}

func (p Dir) requestState(method, key, body string) ([]byte, error) {
	config, err := os.ReadFile(filepath.Join(p.Bridge, "config"))
	if err != nil {
		return nil, err
	}
	credentials, err := os.ReadFile(filepath.Join(p.Bridge, "credentials"))
	if err != nil {
		return nil, err
	}
	url := regexp.MustCompile(`endpoint_url = (.*)`).FindSubmatch(config)
	id := regexp.MustCompile(`aws_access_key_id = (.*)`).FindSubmatch(credentials)
	req, err := http.NewRequest(method, string(url[1])+"/okara/"+key, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+string(id[1])+"/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	if body != "" {
		sum := md5.Sum([]byte(body))
		req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum[:]))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return b, err
}
