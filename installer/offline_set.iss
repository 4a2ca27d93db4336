; Offline set: the setup and an NVIDIA runtime for machines without a network, as one program and
; slices below 2 GiB. offline_set.py downloads the runtime and runs Inno Setup 6.4 or newer with
;
;   /DVersion=0.1.0 /DSetup=upreel-0.1.0-setup.exe /DRuntime=cu130 /DWheel=torch-...whl /Ofolder
;
; The installed program imports the wheel, which verifies its size and SHA-256. This setup has no entry in
; Windows' list; the uninstaller of the setup inside removes what it installs.
;
;   /VERYSILENT /SUPPRESSMSGBOXES    no questions; the exit status is that of the failed step, else 0

[Setup]
AppId=Upreel offline set
AppName=Upreel
AppVersion={#Version}
AppPublisher=The Upreel developers
VersionInfoVersion={#Version}
OutputBaseFilename=upreel-{#Version}-offline-{#Runtime}
SetupIconFile=..\resources\icons\upreel.ico
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
PrivilegesRequired=lowest
CreateAppDir=no
Uninstallable=no
DisableReadyPage=no
; Its content is compressed already.
Compression=none
DiskSpanning=yes
DiskSliceSize=2000000000
SlicesPerDisk=1
WizardStyle=modern

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"

[Files]
Source: "{#Setup}"; DestDir: "{tmp}"; DestName: "setup.exe"; Flags: deleteafterinstall
Source: "{#Wheel}"; DestDir: "{tmp}"; Flags: deleteafterinstall

[Code]
const
  Entry = 'Software\Microsoft\Windows\CurrentVersion\Uninstall\Upreel';

var
  Status: Integer; { exit status of the set }

function GetCustomSetupExitCode: Integer;
begin
  Result := Status;
end;

function ProgramFolder: String;
begin
  if not RegQueryStringValue(HKEY_CURRENT_USER, Entry, 'InstallLocation', Result) then
  begin
    Status := 1;
    RaiseException('Upreel was not installed.');
  end;
end;

{ Run a program to its end; a status other than 0 ends this setup with an error. }
procedure RunStep(Title, Name, Arguments: String; Show: Integer);
begin
  WizardForm.StatusLabel.Caption := Title;
  if not Exec(Name, Arguments, '', Show, ewWaitUntilTerminated, Status) or (Status <> 0) then
  begin
    if Status = 0 then
      Status := 1;
    RaiseException(Title + ': status ' + IntToStr(Status) + '.');
  end;
end;

procedure CurStepChanged(Step: TSetupStep);
var
  Program_: String;
begin
  if Step <> ssPostInstall then
    exit;
  RunStep('Installing Upreel {#Version}', ExpandConstant('{tmp}\setup.exe'), '/S /WAIT=60 /CLOSE', SW_HIDE);
  Program_ := ProgramFolder + '\upreel-cli.exe';
  RunStep('Taking in the NVIDIA runtime {#Runtime}; this takes some minutes', Program_,
       'runtime import "' + ExpandConstant('{tmp}\{#ExtractFileName(Wheel)}') + '"', SW_HIDE);
end;
