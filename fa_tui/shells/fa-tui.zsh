#compdef fa-tui
# zsh completion of fa-tui; written by docs/shells.py
_fa-tui() {
    local -a known
    known=(
        'open:Open the explorer on audit files, checkpoints and run folders'
        'show:Print the verdict of every run under the given thresholds'
        'audit:Measure checkpoints and run folders'
        'check:Judge runs and claims for a script\: exit with 0 if all hold'
        'diff:Compare two audits run by run'
        'seeds:Print each method over its seeds, and where seeds disagree'
        'sweep:Print how far each threshold may move'
        'utility:Print the runs that each reporting habit would walk back'
        'timeline:Print the first epoch at which each diagnostic fires'
        'report:Write the reporting form\: what goes into a paper’s appendix'
        'train:Train runs, measured every epoch, each into a run folder'
        'replicate:Print the commands of a published experiment, or run them'
        'verify:Measure recorded audits again and compare their quantities'
        'pitfalls:Compute seven pitfalls\: the wrong and the right value'
        'serve:Serve the explorer to a browser on this machine'
        'schema:Print the JSON Schema of a file kind'
        'settings:List, get or set the explorer’s settings'
        'completion:Print the completion script of a shell, or the manual page'
        'doctor:Say what this machine can do, and what is missing'
    )
    if (( CURRENT == 2 )); then
        _describe command known
        _files
        return
    fi
    shift words
    (( CURRENT-- ))
    case "$words[1]" in
        show)
            _arguments \
                '*--help[Show the help]' \
                '*--format=[How to print the rows]:CHOICE:(table json csv markdown)' \
                '*--sort=[By a column of the explorer’s long view\: growth]:STR:_files' \
                '*--protocol=[v2\: the successor’s verdict, D1, D2, D3 by the thresholds of a, b, d]:CHOICE:(v1 v2)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        audit)
            _arguments \
                '*--help[Show the help]' \
                '*--out=[The audit table to write (JSON)]:FILE:_files' \
                '*--data=[Data to measure on\: synthetic\[\:…\], cifar10\:DIR\[,raw\], cifar100\:DIR,…]:SPEC:_files' \
                '*--model=[The network that the weights belong to\: module\:callable(depth=4), your…]:SPEC:_files' \
                '*--weights=[Which of several mappings of tensors in a file to take, by its name…]:NAME:_files' \
                '*--taps=[Modules whose outputs are the stream h_0..h_L, e.g. ’embed,blocks.*’]:LIST:_files' \
                '*--batches=[Batches behind (c)]:K|auto:_files' \
                '*--batch-size=[Samples in each]:B:_files' \
                '*--norm-batches=[How many of them (a) and (b) use]:INT:_files' \
                '*--dtype=[Arithmetic]:CHOICE:(auto float32 float64 as-is)' \
                '*--credit=[Credit quality\: none, Γ per layer with its null, or also ρ]:CHOICE:(none gamma full)' \
                '*--precision[Compare the gradients with float64 ones, per layer, also where (b)…]' \
                '*--ablate[Measure accuracy without each block\: passes per block]' \
                '*--device=[auto, cpu, cuda\:all, cuda\:1, or several with commas\: one worker each]:STR:_files' \
                '*--jobs=[Workers at a time]:N:_files' \
                '*--engine=[Where\: worker processes of this machine, or a Ray cluster (needs ray)]:CHOICE:(local ray)' \
                '*--address=[The Ray cluster’s head, or auto\: the one that runs on this machine]:HOST\:PORT:_files' \
                '*--patience=[On a cluster\: a run that takes longer is cancelled and tried once more]:SECONDS:_files' \
                '*--resume[Skip what FILE holds already, measured from the same files and settings]' \
                '*--replace[Measure all again]' \
                '*--notes=[What the reports are to say of these runs]:TEXT:_files' \
                '*--format=[How to print the rows]:CHOICE:(table json)' \
                '*--shard=[The I-th of N parts of the runs, each with a FILE of its own]:I/N:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        check)
            _arguments \
                '*--help[Show the help]' \
                '*--require=[Diagnostics that every run must have measured, exactly\: abd]:LETTERS:_files' \
                '*--claims=[Judge the claims of this TOML file seed by seed (docs/protocol.md,…]:FILE:_files' \
                '*--only-claims[Judge the claims]' \
                '*--format=[Lines, JSON, JUnit XML, or annotations of GitHub Actions]:CHOICE:(text json junit github)' \
                '*--protocol=[v2\: the successor’s verdict, D1, D2, D3 by the thresholds of a, b, d]:CHOICE:(v1 v2)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        diff)
            _arguments \
                '*--help[Show the help]' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '1:argument:_files' \
                '*:argument:_files' ;;
        seeds)
            _arguments \
                '*--help[Show the help]' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        sweep)
            _arguments \
                '*--help[Show the help]' \
                '*--healthy=[Methods that should pass, or none]:LIST:_files' \
                '*--degenerate=[Methods that should fire, or none]:LIST:_files' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        utility)
            _arguments \
                '*--help[Show the help]' \
                '*--chance=[Accuracy of guessing, a fraction (S0 withdraws it)]:ACC:_files' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        timeline)
            _arguments \
                '*--help[Show the help]' \
                '*--stop-on=[Diagnostics that would end a run, e.g. b or ab]:LETTERS:_files' \
                '*--epochs=[Planned length of the runs, if the traces are not complete]:N:_files' \
                '*--follow[Print again whenever a trace grows, until Ctrl-C]' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        report)
            _arguments \
                '*--help[Show the help]' \
                '*--out=[A name ending in .md, .html, .tex, .svg, .pdf, .png or .csv]:FILE:_files' \
                '*--title=[Heading of .md and .html]:TEXT:_files' \
                '*--blank[The empty form, as .md or .html]' \
                '*--card[The form’s first page alone, as .html or .md]' \
                '*--claims=[Judge the claims of this TOML file seed by seed (docs/protocol.md,…]:FILE:_files' \
                '*--protocol=[v2\: the successor’s verdict, D1, D2, D3 by the thresholds of a, b, d]:CHOICE:(v1 v2)' \
                '*--figure=[What .svg, .pdf and .png show\: methods, rescue or lam (by the…]:NAME:(methods rescue lam timeline gamma)' \
                '*--methods=[Only runs of these methods]:LIST:_files' \
                '*--seeds=[Only runs of these seeds]:LIST:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
        train)
            _arguments \
                '*--help[Show the help]' \
                '*--method=[Credit rules, e.g. bp,dfa]:STR:(bp fa dfa state_bridge credit_bridge ep fa_weights usf brsf frsf kp weight_mirror dfa_layers sparse_dfa drtp dtp pc local_loss pepita ff frozen shallow random_init random_targets)' \
                '*--out=[Folder for the run folders]:PATH:_files' \
                '*--arch=[resmlp, resmlp_wide, studentnet, vit_mini, smallcnn, small_resnet,…]:STR:(resmlp resmlp_wide vit_mini studentnet smallcnn small_resnet resnet56 resnet20)' \
                '*--data=[synthetic\[\:input=16,ambient=1024\], cifar10\:DIR, cifar100\:DIR,…]:SPEC:_files' \
                '*--seeds=[One run each]:STR:_files' \
                '*--epochs=[Passes over the training samples]:INT:_files' \
                '*--lam=[λ of the penalty λ‖f‖²]:STR:_files' \
                '*--d=[Width]:STR:_files' \
                '*--L=[Depth]:STR:_files' \
                '*--terminal-ln[LayerNorm before the head]' \
                '*--no-terminal-ln[LayerNorm before the head]' \
                '*--method-arg=[An option of the method, e.g. variant=stable]:KEY=VALUE:_files' \
                '*--arch-arg=[An argument of the network, e.g. hidden=256]:KEY=VALUE:_files' \
                '*--lr=[Learning rate]:FLOAT:_files' \
                '*--weight-decay=[Weight decay]:FLOAT:_files' \
                '*--schedule=[cosine or constant]:STR:_files' \
                '*--optimizer=[adamw, adam or sgd]:STR:_files' \
                '*--batch-size=[Samples per step]:INT:_files' \
                '*--eval-seed=[Picks the evaluation batches]:INT:_files' \
                '*--stop-on=[End a run when one of these fires, e.g. ab]:LETTERS:_files' \
                '*--resume[Go on with unfinished runs, skip finished ones]' \
                '*--overwrite[Train again over what is there]' \
                '*--device=[auto, cpu, cuda\:all, cuda\:1, or several with commas\: a run at a time…]:STR:_files' \
                '*--jobs=[Runs at a time]:N:_files' \
                '*--threads=[CPU threads (default\: 1 for small networks, else PyTorch’s)]:INT RANGE:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*:argument:_files' ;;
        replicate)
            _arguments \
                '*--help[Show the help]' \
                '*--cifar10=[Folder of CIFAR-10]:DIR:_files' \
                '*--cifar100=[Folder of CIFAR-100]:DIR:_files' \
                '*--out=[Folder of the run folders]:PATH:_files' \
                '*--run[Run the commands]' \
                '*--device=[Where --run trains and measures]:LIST:_files' \
                '*--jobs=[Runs at a time]:N:_files' \
                '*:argument:(audit temporal baselines fa random-init early-stop d512 depth cnn vit studentnet penalty direction cifar100 biotorch-resnet20 biotorch-resnet56 nakajima-vit)' ;;
        verify)
            _arguments \
                '*--help[Show the help]' \
                '*--data=[Data to measure on\: synthetic\[\:…\], cifar10\:DIR\[,raw\], cifar100\:DIR,…]:SPEC:_files' \
                '*--model=[The network that the weights belong to\: module\:callable(depth=4), your…]:SPEC:_files' \
                '*--weights=[Which of several mappings of tensors in a file to take, by its name…]:NAME:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--device=[auto, cpu, cuda\:all, cuda\:1, or several with commas\: one worker each]:STR:_files' \
                '*--jobs=[Workers at a time]:N:_files' \
                '*--engine=[Where\: worker processes of this machine, or a Ray cluster (needs ray)]:CHOICE:(local ray)' \
                '*--address=[The Ray cluster’s head, or auto\: the one that runs on this machine]:HOST\:PORT:_files' \
                '*--patience=[On a cluster\: a run that takes longer is cancelled and tried once more]:SECONDS:_files' \
                '*--format=[How to print the outcome]:CHOICE:(table json)' \
                '*:argument:_files' ;;
        pitfalls)
            _arguments \
                '*--help[Show the help]' \
                '*--run=[Run folder with saved feedback for 4 to 7]:FOLDER:_files' \
                '*--format=[A table for reading, or JSON with every digit (NaN and Infinity as…]:CHOICE:(table json)' \
                '*:argument:(norm-axis cosine-eps half-flush null-feedback aggregations layer-mean missing-feedback)' ;;
        serve)
            _arguments \
                '*--help[Show the help]' \
                '*--port=[Where to listen]:INT RANGE:_files' \
                '*:argument:_files' ;;
        schema)
            _arguments \
                '*--help[Show the help]' \
                '*:argument:(report audit-table manifest trace journal settings)' ;;
        settings)
            _arguments \
                '*--help[Show the help]' \
                '1:argument:(list get set)' \
                '2:argument:(theme glyphs device show live poll_seconds side columns thresholds.g_norm_floor thresholds.h_norm_explosion_ratio thresholds.stability_drift_ceiling thresholds.frozen_acc_margin_pp)' \
                '*:argument:_files' ;;
        completion)
            _arguments \
                '*--help[Show the help]' \
                '*:argument:(bash zsh fish man)' ;;
        doctor)
            _arguments \
                '*--help[Show the help]' \
                '*--format=[How to print]:CHOICE:(table json)' \
                '*:argument:_files' ;;
        *)  # `fa-tui PATH` is `fa-tui open PATH`
            _arguments \
                '*--help[Show the help]' \
                '*--data=[Data to measure on\: synthetic\[\:…\], cifar10\:DIR\[,raw\], cifar100\:DIR,…]:SPEC:_files' \
                '*--model=[The network that the weights belong to\: module\:callable(depth=4), your…]:SPEC:_files' \
                '*--taps=[Modules whose outputs are the stream h_0..h_L, e.g. ’embed,blocks.*’]:LIST:_files' \
                '*--show=[What the matrix shows\: letters, growth, g_L, drift, margin, acc, h_L,…]:WHAT:_files' \
                '*--rows=[The lines of the matrix\: method, seed, source, or what the runs name,…]:AXIS:_files' \
                '*--across=[Its columns, likewise]:AXIS:_files' \
                '*--filter=[Only some runs, as / in the explorer\: ’method\:dfa flag\:b growth>100’]:STR:_files' \
                '*--sort=[By a column of the explorer’s long view\: growth]:STR:_files' \
                '*--long[Begin in the long view, as --sort does]' \
                '*--device=[auto, cpu, cuda\:all, cuda\:1, or several with commas\: one worker each]:STR:_files' \
                '*--jobs=[Workers at a time]:N:_files' \
                '*--engine=[Where\: worker processes of this machine, or a Ray cluster (needs ray)]:CHOICE:(local ray)' \
                '*--address=[The Ray cluster’s head, or auto\: the one that runs on this machine]:HOST\:PORT:_files' \
                '*--patience=[On a cluster\: a run that takes longer is cancelled and tried once more]:SECONDS:_files' \
                '*--h0=[‖h_0‖ of logs that hold only ‖h_L‖\: bounds their growth]:NORM:_files' \
                '*--blocks=[Number of blocks of such logs]:L:_files' \
                '*--depth=[Number of blocks of such logs]:L:_files' \
                '*--columns=[Columns of logs that other tools wrote\: acc=val_acc,h=norms/h_*]:LIST:_files' \
                '*--h-norm-explosion-ratio=[(a) fires above this growth per block]:RATIO:_files' \
                '*--g-norm-floor=[(b) fires below this deepest ‖g_L‖]:NORM:_files' \
                '*--stability-drift-ceiling=[(c) fires above this drift cosine]:COSINE:_files' \
                '*--frozen-acc-margin-pp=[(d) fires below this margin over frozen]:PP:_files' \
                '*--frozen-baseline=[Frozen-blocks accuracy (a fraction) to assume for every run without…]:\[METHOD=\]ACC:_files' \
                '*:argument:_files' ;;
    esac
}
if [[ "$funcstack[1]" == "_fa-tui" ]]; then _fa-tui "$@"; else compdef _fa-tui fa-tui; fi
